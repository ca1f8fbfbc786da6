{{- define "hap.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hap.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "hap.name" .) -}}
{{- end -}}

{{- define "hap.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hap.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "hap.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "hap.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* Refuses names in config that differ from those of the ConfigMap or IPAMConfig that the chart makes: no worker
would read what the chart makes. */ -}}
{{- define "hap.madeIsRead" -}}
{{- $made := dict -}}
{{- if and .Values.policy.enabled (.Values.policy.overrides | default .Values.policy.document) -}}
{{- $_ := set $made "policy" (dict "configMap" .Values.policy.configMap "key" .Values.policy.key "namespace" .Release.Namespace) -}}
{{- end -}}
{{- if and .Values.network.enabled .Values.network.spec -}}
{{- $_ := set $made "network" (dict "config" .Values.network.config) -}}
{{- end -}}
{{- range $section, $names := $made -}}
{{- $own := get $.Values.config $section | default dict -}}
{{- range $key, $name := $names -}}
{{- if and (get $own $key) (ne (get $own $key) $name) -}}
{{- fail (printf "config.%s.%s is %s, and the chart makes it as %s, which no worker would read: leave config.%s.%s out" $section $key (get $own $key) $name $section $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The worker's configuration: the sections of the values in one file. */ -}}
{{- define "hap.config" -}}
{{- include "hap.madeIsRead" . -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "hap" (include "hap.rules" . | fromYaml) -}}
{{- if .Values.policy.enabled -}}
{{- $policy := dict "configMap" .Values.policy.configMap "key" .Values.policy.key "namespace" .Release.Namespace -}}
{{- if include "hap.policyFile" . -}}
{{- $policy = dict "file" (include "hap.policyFile" .) -}}
{{- end -}}
{{- if .Values.policy.catalogConfigMap -}}
{{- $_ := set $policy "catalog" "/etc/hap-worker-catalog/catalog.yaml" -}}
{{- end -}}
{{- $_ := set $config "policy" (mergeOverwrite $policy ($config.policy | default dict)) -}}
{{- end -}}
{{- if .Values.network.enabled -}}
{{- $network := dict "config" .Values.network.config "clusterConfigs" .Values.network.clusterConfigs "required" .Values.network.required "clusters" .Values.network.clusters -}}
{{- if include "hap.networkFile" . -}}
{{- $network = dict "file" (include "hap.networkFile" .) "clusterConfigs" .Values.network.clusterConfigs "required" .Values.network.required "clusters" .Values.network.clusters -}}
{{- end -}}
{{- $_ := set $config "network" (mergeOverwrite $network ($config.network | default dict)) -}}
{{- end -}}
{{- $_ := set $config "telemetry" (mergeOverwrite (dict "listen" (include "hap.listen" .)) ($config.telemetry | default dict)) -}}
{{- toYaml $config -}}
{{- end -}}

{{- /* The section hap. Refuses rules in both forms. */ -}}
{{- define "hap.rules" -}}
{{- $hap := .Values.hap | default dict -}}
{{- if $hap.rule -}}
{{- range $older := list "platformRegionRule" "clusterRegionRule" "sharedRule" "euAccessRule" -}}
{{- if get $hap $older -}}
{{- fail (printf "hap.rule and hap.%s are two forms of the same rules: keep one of them; hapctl rules convert turns the older form into the newer one" $older) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $hap -}}
{{- end -}}

{{- /*
The text of the policy: the document, with the overrides laid over it or in its place. A document or
overrides in the form of values may leave apiVersion out: the chart adds it.
*/ -}}
{{- define "hap.policyDocument" -}}
{{- $document := .Values.policy.document -}}
{{- $overrides := .Values.policy.overrides -}}
{{- if and $overrides (kindIs "map" $overrides) -}}
{{- $base := dict -}}
{{- if kindIs "map" $document -}}
{{- $base = $document -}}
{{- else if $document -}}
{{- $base = fromYaml $document -}}
{{- if $base.Error -}}
{{- fail (printf "policy.document is no YAML that policy.overrides can be laid over: %s" $base.Error) -}}
{{- end -}}
{{- end -}}
{{- $rules := dict -}}
{{- range $of := list $base $overrides -}}
{{- range $key, $rule := $of.rules | default dict -}}
{{- $_ := set $rules $key $rule -}}
{{- end -}}
{{- end -}}
{{- $result := merge (dict "rules" $rules) (omit $overrides "rules") (omit $base "rules") (dict "apiVersion" "0.1.0") -}}
{{- toYaml $result -}}
{{- else if $overrides -}}
{{- $overrides -}}
{{- else if kindIs "map" $document -}}
{{- with $document -}}
{{- toYaml (merge (dict) . (dict "apiVersion" "0.1.0")) -}}
{{- end -}}
{{- else -}}
{{- $document -}}
{{- end -}}
{{- end -}}

{{- /* Where the policy is mounted: if the chart makes it, Gardener is another cluster, and config.policy names neither
kubeconfig nor file. Otherwise empty. */ -}}
{{- define "hap.policyFile" -}}
{{- $own := .Values.config.policy | default dict -}}
{{- if and .Values.policy.enabled (.Values.policy.overrides | default .Values.policy.document) .Values.config.gardener.kubeconfig (not $own.kubeconfig) (not $own.file) -}}
/etc/hap-worker-policy/{{ .Values.policy.key }}
{{- end -}}
{{- end -}}

{{- /* The same for the IPAMConfig. */ -}}
{{- define "hap.networkFile" -}}
{{- $own := .Values.config.network | default dict -}}
{{- if and .Values.network.enabled .Values.network.spec .Values.config.gardener.kubeconfig (not $own.kubeconfig) (not $own.file) -}}
/etc/hap-worker/network.yaml
{{- end -}}
{{- end -}}

{{- /* Refuses parents that are no IPv4 CIDR, and parents with addresses that no cluster can use, as the
worker does (engine/network). Each element of $special has the first and the last address, as numbers. */ -}}
{{- define "hap.parents" -}}
{{- $octet := "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])" -}}
{{- $form := printf "^%s([.]%s){3}/(3[0-2]|[12]?[0-9])$" $octet $octet -}}
{{- $special := list
  (list 0 16777215 "this network (0.0.0.0/8)")
  (list 2130706432 2147483647 "loopback (127.0.0.0/8)")
  (list 2851995648 2852061183 "link-local (169.254.0.0/16)")
  (list 3758096384 4026531839 "multicast (224.0.0.0/4)")
  (list 4294967295 4294967295 "broadcast (255.255.255.255/32)") -}}
{{- range $parent, $cidrs := .Values.network.spec.parentCIDRs -}}
{{- range $cidr := $cidrs -}}
{{- if not (regexMatch $form $cidr) -}}
{{- fail (printf "network.spec.parentCIDRs.%s: %q is no IPv4 CIDR; write one such as 10.27.0.0/16" $parent $cidr) -}}
{{- end -}}
{{- $parts := regexSplit "[./]" $cidr -1 -}}
{{- $first := 0 -}}
{{- range initial $parts -}}{{- $first = add (mul $first 256) (int .) -}}{{- end -}}
{{- $size := 1 -}}
{{- range until (sub 32 (int (last $parts)) | int) -}}{{- $size = mul $size 2 -}}{{- end -}}
{{- $first = sub $first (mod $first $size) -}}
{{- $last := sub (add $first $size) 1 -}}
{{- range $special -}}
{{- if and (le $first (int64 (index . 1))) (ge $last (int64 (index . 0))) -}}
{{- fail (printf "network.spec.parentCIDRs.%s: %s has addresses of %s, which no cluster can use; name the range that you own" $parent $cidr (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hap.ipamConfig" -}}
{{- include "hap.parents" . -}}
apiVersion: gardener.clusters.openmcp.cloud/v1alpha1
kind: IPAMConfig
metadata:
  name: {{ .Values.network.config }}
  labels: {{- include "hap.labels" . | nindent 4 }}
spec: {{- toYaml .Values.network.spec | nindent 2 }}
{{- end -}}

{{- define "hap.listen" -}}
{{- (.Values.config.telemetry | default dict).listen | default ":8080" -}}
{{- end -}}

{{- /* The port at the end of an address, empty if there is none, without leading zeros, which YAML and int take for octal. */ -}}
{{- define "hap.portOf" -}}
{{- regexReplaceAll "^0+([0-9])" (regexFind "[0-9]+$" .) "${1}" -}}
{{- end -}}

{{- /* The port of config.telemetry.listen. */ -}}
{{- define "hap.port" -}}
{{- $listen := include "hap.listen" . -}}
{{- if regexMatch "^(127\\.|localhost|\\[::1\\])" $listen -}}
{{- fail (printf "config.telemetry.listen is %s: on loopback neither probes nor Prometheus reach it; write :8080" $listen) -}}
{{- end -}}
{{- $port := include "hap.portOf" $listen -}}
{{- if or (not $port) (eq $port "0") -}}
{{- fail (printf "config.telemetry.listen is %s: the Service needs a port that is known; write :8080" $listen) -}}
{{- end -}}
{{- $port -}}
{{- end -}}

{{- /* worker.drain in seconds, rounded up. */ -}}
{{- define "hap.drain" -}}
{{- $drain := (.Values.config.worker | default dict).drain | default "25s" | toString -}}
{{- $number := "[0-9]*[.]?[0-9]*" -}}
{{- $seconds := 0.0 -}}
{{- range $unit, $size := dict "d" 86400 "h" 3600 "m([^s]|$)" 60 "s" 1 "ms" 0.001 -}}
{{- $count := regexFind (printf "%s%s" $number $unit) $drain | regexFind $number -}}
{{- $seconds = addf $seconds (mulf (float64 $count) $size) -}}
{{- end -}}
{{- ceil $seconds | int64 -}}
{{- end -}}

{{- define "hap.grace" -}}
{{- $drain := include "hap.drain" . | int -}}
{{- $grace := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $grace -}}
{{- add $drain 15 -}}
{{- else if le (int $grace) $drain -}}
{{- fail (printf "terminationGracePeriodSeconds is %d: a worker may take config.worker.drain, %d seconds, to finish what it has begun, and would be killed before; leave it out" (int $grace) $drain) -}}
{{- else -}}
{{- int $grace -}}
{{- end -}}
{{- end -}}

{{- /* Whether pods get a token of the cluster that they run in. Refuses to leave out a token that they need. */ -}}
{{- define "hap.automountToken" -}}
{{- $wanted := .Values.serviceAccount.automountToken -}}
{{- if kindIs "invalid" $wanted -}}
{{- empty .Values.config.gardener.kubeconfig -}}
{{- else if not (or $wanted .Values.config.gardener.kubeconfig) -}}
{{- fail "serviceAccount.automountToken is false, and config.gardener.kubeconfig names no file: the worker could not log in to Gardener; leave one of them out, or set the other" -}}
{{- else -}}
{{- $wanted -}}
{{- end -}}
{{- end -}}

{{- /* Refuses variables in env that outrule values which the manifests follow. The worker ignores case and underscores. */ -}}
{{- define "hap.followed" -}}
{{- $keys := list "telemetry.listen" "telemetry.page.listen" "worker.drain" "worker.mode" "gardener.kubeconfig" "gardener.namespace" "gardener.resource" "gardener.events"
  "policy.configMap" "policy.namespace" "policy.file" "policy.kubeconfig" "policy.catalog"
  "network.config" "network.file" "network.kubeconfig" "network.clusterConfigs" "network.required" "network.clusters"
  "redis.cluster" "redis.sentinelMaster" -}}
{{- range .Values.env -}}
{{- $name := .name -}}
{{- range $key := $keys -}}
{{- if eq (lower $name | replace "_" "") (printf "hap%s" $key | replace "." "" | lower) -}}
{{- fail (printf "env has %s, which outrules config.%s, and the chart's ports, grace, token and rights follow that one: set config.%s" $name $key $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Refuses a NetworkPolicy that lets workers reach one of their servers and not the others, unless it has rules in egress. */ -}}
{{- define "hap.egressComplete" -}}
{{- $policy := .Values.networkPolicy -}}
{{- if and (or $policy.nats $policy.redis $policy.kubernetes) (not $policy.egress) -}}
{{- range $server := list "nats" "redis" "kubernetes" -}}
{{- if not (get $policy $server) -}}
{{- fail (printf "networkPolicy.%s is empty beside other peers: workers could not reach that server; name where it is, or add a rule to networkPolicy.egress" $server) -}}
{{- end -}}
{{- end -}}
{{- range $key := list "telemetry.otlp.endpoint" "telemetry.page.oidc.issuer" -}}
{{- if include "hap.urls" (dict "Values" $.Values "key" $key) | fromYamlArray -}}
{{- fail (printf "config.%s cannot be reached: networkPolicy.nats, redis and kubernetes close every other way; add a rule to networkPolicy.egress" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The ports of a key's URLs, a default for URLs without one, and 6379 for the Redis servers that sentinels or a
cluster name. None, so every port, if the URLs come from a Secret. */ -}}
{{- define "hap.ports" -}}
{{- $ports := list -}}
{{- range include "hap.urls" . | fromYamlArray -}}
{{- $default := get (dict "ws:" 80 "wss:" 443) (trim . | lower | regexFind "^wss?:") | default $.default -}}
{{- $ports = append $ports (regexFind ":[0-9]+([/?].*)?$" . | regexFind "[0-9]+" | include "hap.portOf" | default $default | int) -}}
{{- end -}}
{{- $redis := .Values.config.redis | default dict -}}
{{- if and $ports (eq .key "redis.url") (or $redis.sentinelMaster $redis.cluster (gt (len $ports) 1)) -}}
{{- $ports = append $ports 6379 -}}
{{- end -}}
{{- range uniq $ports }}
- {port: {{ . }}, protocol: TCP}
{{- end -}}
{{- end -}}

{{- /* The paths of the page, without metrics and probes. */ -}}
{{- define "hap.pagePaths" -}}
- {type: Exact, path: /}
- {type: Prefix, path: /accounts}
- {type: Prefix, path: /assets}
- {type: Prefix, path: /find}
- {type: Prefix, path: /oidc}
- {type: Prefix, path: /pools}
- {type: Prefix, path: /records}
- {type: Prefix, path: /rules}
- {type: Prefix, path: /runtimes}
- {type: Prefix, path: /tenants}
{{- end -}}

{{- /* The port of config.telemetry.page.listen; empty if that is not set or is a loopback address. */ -}}
{{- define "hap.pagePort" -}}
{{- $listen := ((.Values.config.telemetry | default dict).page | default dict).listen -}}
{{- if and $listen (not (regexMatch "^(127\\.|localhost|\\[::1\\])" $listen)) -}}
{{- $port := include "hap.portOf" $listen -}}
{{- if or (not $port) (eq $port "0") -}}
{{- fail (printf "config.telemetry.page.listen is %s: the Service needs a port that is known; write :8443" $listen) -}}
{{- else if eq $port (include "hap.port" .) -}}
{{- fail (printf "config.telemetry.page.listen has the port of config.telemetry.listen, %s: take another one, or leave it out" $port) -}}
{{- end -}}
{{- $port -}}
{{- end -}}
{{- end -}}

{{- /* Refuses to show a page without a login, on loopback, or out of the controller's reach. */ -}}
{{- define "hap.pageLogin" -}}
{{- $page := (.Values.config.telemetry | default dict).page | default dict -}}
{{- if not (or $page.passwordFile $page.tokenFile ($page.oidc | default dict).issuer) -}}
{{- fail (printf "%s shows the operations page, which has no login: set config.telemetry.page.username and passwordFile, or tokenFile, or oidc" .by) -}}
{{- end -}}
{{- if regexMatch "^(127\\.|localhost|\\[::1\\])" ($page.listen | default "") -}}
{{- fail (printf "%s shows the operations page, and config.telemetry.page.listen is %s: on loopback nobody reaches it; write :8443" .by $page.listen) -}}
{{- end -}}
{{- $peers := ternary "page" "from" (ne (include "hap.pagePort" .) "") -}}
{{- if and .Values.networkPolicy.enabled (not (get .Values.networkPolicy $peers)) -}}
{{- fail (printf "%s shows the operations page, and networkPolicy.%s is empty, which lets in no pod of another namespace: name the controller there, or [{podSelector: {}}] if it runs in this namespace" .by $peers) -}}
{{- end -}}
{{- end -}}

{{- define "hap.gardenerNamespace" -}}
{{- required "config.gardener.namespace is needed: it is where bindings and Shoots are" .Values.config.gardener.namespace -}}
{{- end -}}

{{- define "hap.rightsSubjects" -}}
{{- if .Values.rights.subjects -}}
{{- toYaml .Values.rights.subjects -}}
{{- else -}}
- kind: ServiceAccount
  name: {{ include "hap.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
{{- end -}}

{{- /* The URLs that the worker has for a key: an environment variable in values.env outrules the
configuration. If its value comes from a Secret, the chart does not know it, and the list is empty. */ -}}
{{- define "hap.urls" -}}
{{- $urls := .Values.config -}}
{{- range splitList "." .key -}}{{- $urls = get ($urls | default dict) . -}}{{- end -}}
{{- $urls = $urls | default list -}}
{{- range .Values.env -}}
{{- if eq (lower .name | replace "_" "") (printf "hap%s" $.key | replace "." "" | lower) -}}
{{- $urls = .value | default list -}}
{{- end -}}
{{- end -}}
{{- if kindIs "string" $urls -}}{{- $urls = splitList "," $urls -}}{{- end -}}
{{- toYaml $urls -}}
{{- end -}}

{{- /* Refuses a connection without TLS to another machine unless plainConnections allows it. Only
the host is named: the rest of a URL may be a secret. */ -}}
{{- define "hap.decidedPlain" -}}
{{- if not (get (.Values.plainConnections | default dict) .decides) -}}
{{- range include "hap.urls" . | fromYamlArray -}}
{{- $url := trim . -}}
{{- if and $.scheme (not (contains "://" $url)) -}}{{- $url = printf "%s://%s" $.scheme $url -}}{{- end -}}
{{- if regexMatch (printf "^(%s)://" $.plain) (lower $url) -}}
{{- $host := regexReplaceAll "^[^:]*://([^/?#]*@)?([^/?#]*).*$" $url "${2}" -}}
{{- $name := regexReplaceAll ":[0-9]*$" $host "" | lower | trimSuffix "." -}}
{{- if not (regexMatch "^(|localhost|.*[.]localhost|127[.][0-9.]+|\\[::1\\])$" $name) -}}
{{- fail (printf "config.%s leads to %s without TLS, where %s can be read on the way. Decide: use %s, or set plainConnections.%s to true where that way is trusted" $.key $host $.readable $.instead $.decides) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
