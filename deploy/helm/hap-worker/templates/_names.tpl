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

{{- /* The worker's configuration: the sections of the values in one file. */ -}}
{{- define "hap.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "hap" .Values.hap -}}
{{- if .Values.policy.enabled -}}
{{- $policy := dict "configMap" .Values.policy.configMap "key" .Values.policy.key "namespace" .Release.Namespace -}}
{{- if .Values.policy.catalogConfigMap -}}
{{- $_ := set $policy "catalog" "/etc/hap-worker-catalog/catalog.yaml" -}}
{{- end -}}
{{- $_ := set $config "policy" (mergeOverwrite $policy ($config.policy | default dict)) -}}
{{- end -}}
{{- if .Values.network.enabled -}}
{{- $network := dict "config" .Values.network.config "clusterConfigs" .Values.network.clusterConfigs -}}
{{- $_ := set $config "network" (mergeOverwrite $network ($config.network | default dict)) -}}
{{- end -}}
{{- $telemetry := dict "listen" ":8080" -}}
{{- $_ := set $config "telemetry" (mergeOverwrite $telemetry ($config.telemetry | default dict)) -}}
{{- toYaml $config -}}
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
