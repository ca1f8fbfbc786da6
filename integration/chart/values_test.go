package chart_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/page/access"
)

// elsewhere are the values of an installation whose Gardener is in another cluster.
const elsewhere = `
config:
  nats: {url: ["tls://nats-0.nats:4222", "tls://nats-1.nats:4333"], credentials: /etc/hap-worker-secrets/nats/user.creds}
  redis: {url: "rediss://redis.redis"}
  gardener: {kubeconfig: /etc/hap-worker-secrets/gardener/kubeconfig, namespace: garden-kyma}
  worker: {drain: 1m30s}
  telemetry: {listen: "0.0.0.0:9090", page: {username: operator, passwordFile: /etc/hap-worker-secrets/page/password}}
secrets: {nats: {secretName: hap-nats}, gardener: {secretName: hap-gardener}, page: {secretName: hap-page}}
policy: {enabled: true, document: "apiVersion: 0.1.0\nrules: {}\n"}
network:
  enabled: true
  spec: {parentCIDRs: {foo: [10.27.0.0/16]}, injectionRules: [{id: all, injections: [{path: .spec.network.cidr, parents: [foo], subnetSize: 24}]}]}
networkPolicy:
  from: [{podSelector: {}}]
  nats: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: nats}}}]
  redis: [{podSelector: {matchLabels: {app: redis}}}]
  kubernetes: [{ipBlock: {cidr: 10.0.0.1/32}}]
  egress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "{{ .Release.Namespace }}-otel"}}}]}]
serviceMonitor: {enabled: true}
dashboard: {enabled: true}
ingress: {enabled: true, className: nginx, host: hap.example, tlsSecret: hap-tls}
httpRoute: {enabled: true, parentRefs: [{name: public}], hostnames: [hap.example]}
`

// TestLint: helm itself has nothing against the chart, with ten sets of values.
func TestLint(t *testing.T) {
	t.Parallel()
	keb, err := os.ReadFile("testdata/keb-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range []string{
		"", everything, elsewhere, string(keb),
		"{hap: {platformRegionRule: 'gcp:cf-sa30', clusterRegionRule: sap-converged-cloud}}",
		"{config: {gardener: {namespace: garden-kyma, resource: secrets, labels: legacy}}}",
		"{config: {worker: {mode: shadow}}, rights: {create: true}}",
		"{keda: {enabled: true}, podDisruptionBudget: {enabled: false}}",
		"{networkPolicy: {enabled: false}, serviceAccount: {create: false, name: mine}}",
		"{image: {digest: 'sha256:" + strings.Repeat("a", 64) + "'}, env: [{name: HAP_NATS_URL, value: 'nats://a'}]}",
	} {
		given := map[string]any{}
		if err := sigsyaml.Unmarshal([]byte(values), &given); err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.All(chartDir, given, "hap", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s\n%s", values, m)
			}
		}
		if _, err := render(t, values); err != nil {
			t.Errorf("%s\n%v", values, err)
		}
	}
}

// TestMistakes: values that would fail later are refused at installation, with a message that names them.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for values, says := range map[string]string{
		"{hap: {rule: [aws], sharedRule: trial}}":                                                                     "hap.rule and hap.sharedRule are two forms of the same rules: keep one of them; hapctl rules convert turns the older form into the newer one",
		"{terminationGracePeriodSeconds: 25}":                                                                         "terminationGracePeriodSeconds is 25: a worker may take config.worker.drain, 25 seconds, to finish what it has begun, and would be killed before; leave it out",
		"{terminationGracePeriodSeconds: 90, config: {worker: {drain: 1m30s}}}":                                       "config.worker.drain, 90 seconds",
		"{config: {telemetry: {listen: '127.0.0.1:8080'}}}":                                                           "config.telemetry.listen is 127.0.0.1:8080: on loopback neither probes nor Prometheus reach it; write :8080",
		"{config: {telemetry: {listen: ':0'}}}":                                                                       "config.telemetry.listen is :0: the Service needs a port that is known; write :8080",
		"{ingress: {enabled: true, host: hap.example}}":                                                               "ingress.enabled shows the operations page, which has no login: set config.telemetry.page.username and passwordFile, or tokenFile, or oidc",
		"{httpRoute: {enabled: true, parentRefs: [{name: public}]}}":                                                  "httpRoute.enabled shows the operations page, which has no login",
		"{ingress: {enabled: true}, networkPolicy: {enabled: false}, config: {telemetry: {page: {tokenFile: /t}}}}":   "ingress.host is needed: it is the page's name",
		"{httpRoute: {enabled: true}, networkPolicy: {enabled: false}, config: {telemetry: {page: {tokenFile: /t}}}}": "httpRoute.parentRefs is needed: the Gateways that show the page",
		"{ingress: {enabled: true, host: a}, config: {telemetry: {page: {tokenFile: /t, listen: 'localhost:8443'}}}}": "config.telemetry.page.listen is localhost:8443: on loopback nobody reaches it; write :8443",
		"{config: {telemetry: {page: {listen: ':0'}}}}":                                                               "config.telemetry.page.listen is :0: the Service needs a port that is known; write :8443",
		"{config: {telemetry: {page: {listen: '0.0.0.0:8080'}}}}":                                                     "config.telemetry.page.listen has the port of config.telemetry.listen, 8080: take another one, or leave it out",
		"{config: {nats: {urll: 'nats://a'}}}":                                                                        "urll",
		"{serviceAccount: {automountToken: false}}":                                                                   "serviceAccount.automountToken is false, and config.gardener.kubeconfig names no file: the worker could not log in to Gardener",
		"{env: [{name: HAP_TELEMETRY_LISTEN, value: ':9090'}]}":                                                       "env has HAP_TELEMETRY_LISTEN, which outrules config.telemetry.listen",
		"{env: [{name: HAP_WORKER_DRAIN, value: 5m}]}":                                                                "set config.worker.drain",
		"{env: [{name: HAP_GARDENER_KUBECONFIG, value: /k}]}":                                                         "set config.gardener.kubeconfig",
		"{env: [{name: HAP_GARDENER_RESOURCE, value: secrets}]}":                                                      "env has HAP_GARDENER_RESOURCE, which outrules config.gardener.resource, and the chart's ports, grace, token and rights follow that one: set config.gardener.resource",
		"{env: [{name: HAP_GARDENER_NAMESPACE, value: a}]}":                                                           "set config.gardener.namespace",
		"{env: [{name: hap_gardener_events, value: 'true'}]}":                                                         "set config.gardener.events",
		"{env: [{name: HAP_WORKER_MODE, value: shadow}]}":                                                             "set config.worker.mode",
		"{env: [{name: HAP_POLICY_CATALOG, value: /c}]}":                                                              "set config.policy.catalog",
		"{env: [{name: HAP_NETWORK_CLUSTER_CONFIGS, value: 'true'}]}":                                                 "set config.network.clusterConfigs",
		"{env: [{name: HAP_TELEMETRY_PAGELISTEN, value: ':8443'}]}":                                                   "set config.telemetry.page.listen",
		"{networkPolicy: {nats: [{podSelector: {}}], kubernetes: [{podSelector: {}}]}}":                               "networkPolicy.redis is empty beside other peers: workers could not reach that server; name where it is, or add a rule to networkPolicy.egress",
		"{networkPolicy: {nats: [{podSelector: {}}], redis: [{podSelector: {}}], kubernetes: [{podSelector: {}}]}, config: {telemetry: {otlp: {endpoint: 'https://otel'}}}}":           "config.telemetry.otlp.endpoint cannot be reached",
		"{ingress: {enabled: true, host: a}, config: {telemetry: {page: {tokenFile: /t}}}, networkPolicy: {page: [{podSelector: {}}]}}":                                                "ingress.enabled shows the operations page, and networkPolicy.from is empty, which lets in no pod of another namespace: name the controller there, or [{podSelector: {}}] if it runs in this namespace",
		"{httpRoute: {enabled: true, parentRefs: [{name: a}]}, config: {telemetry: {page: {tokenFile: /t, listen: ':8443'}}}, networkPolicy: {from: [{podSelector: {}}]}}":             "httpRoute.enabled shows the operations page, and networkPolicy.page is empty",
		"{config: {telemetry: {page: {listen: ':9443'}}}, service: {pagePort: 8080}}":                                                                                                  "service.pagePort is service.port, 8080: take another one",
		"{networkPolicy: {nats: [{podSelector: {}}], redis: [{podSelector: {}}], kubernetes: [{podSelector: {}}]}, env: [{name: HAP_TELEMETRY_OTLP_ENDPOINT, value: 'https://otel'}]}": "config.telemetry.otlp.endpoint cannot be reached",
		"{policy: {enabled: true, document: 'apiVersion: 0.1.0'}, config: {policy: {configMap: mine}}}":                                                                                "config.policy.configMap is mine, and the chart makes it as hap-policy, which no worker would read: leave config.policy.configMap out",
		"{policy: {enabled: true, overrides: 'apiVersion: 0.1.0'}, config: {policy: {namespace: garden-x}}}":                                                                           "config.policy.namespace is garden-x",
		"{policy: {enabled: true, overrides: 'apiVersion: 0.1.0'}, config: {policy: {key: p}}}":                                                                                        "config.policy.key is p",
		"{network: {enabled: true, spec: {parentCIDRs: {}}}, config: {network: {config: ranges}}}":                                                                                     "config.network.config is ranges, and the chart makes it as ipam",
		"{env: [{name: HAP_REDIS_CLUSTER, value: 'true'}]}":                                                                                                                            "set config.redis.cluster",
		"{network: {spec: {parentCIDR: {}}}}":                                                         "parentCIDR",
		"{network: {spec: {injectionRules: [{id: a, injections: [{path: /a, subnetSiz: 24}]}]}}}":     "subnetSiz",
		"{network: {spec: {injectionRules: [{id: a, matchExpressions: [{key: a, operators: In}]}]}}}": "operators",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v\nwant %s", values, err, says)
		}
	}
}

// TestParentsRefused: the chart refuses the parents of network ranges that the worker refuses, and takes the others.
func TestParentsRefused(t *testing.T) {
	t.Parallel()
	for cidr, of := range map[string]string{
		"0.0.0.0/0": "this network", "0.1.0.0/16": "this network", "127.0.0.0/8": "loopback", "126.0.0.0/7": "loopback", "96.0.0.0/3": "loopback",
		"169.254.0.0/16": "link-local", "169.0.0.0/8": "link-local", "169.254.8.0/24": "link-local", "224.0.0.0/4": "multicast", "239.1.0.0/16": "multicast",
		"255.255.255.255/32": "broadcast", "240.0.0.0/4": "broadcast", "168.0.0.0/7": "link-local", "169.254.255.255/32": "link-local", "0.0.0.0/32": "this network",
		"10.27.0.0/16": "", "169.253.0.0/16": "", "100.64.0.0/10": "", "64.0.0.0/3": "", "240.0.0.0/5": "", "223.0.0.0/8": "", "169.0.0.0/9": "", "169.255.0.0/16": "", "10.0.0.1/8": "",
	} {
		_, err := render(t, "{network: {enabled: true, spec: {parentCIDRs: {foo: ["+cidr+"]}, injectionRules: []}}}")
		says := "network.spec.parentCIDRs.foo: " + cidr + " has addresses of"
		if refused := err != nil && strings.Contains(err.Error(), says) && strings.Contains(err.Error(), of); refused != (of != "") || of == "" && err != nil {
			t.Errorf("%s: %v, want a refusal that names %q", cidr, err, of)
		}
		_, _, err = network.Parse([]byte("spec: {parentCIDRs: {foo: [" + cidr + "]}, injectionRules: []}\n"))
		if (err != nil) != (of != "") {
			t.Errorf("%s: the worker says %v", cidr, err)
		}
	}
}

// TestParentsAreCIDRs: the chart refuses the parents that the worker cannot parse.
func TestParentsAreCIDRs(t *testing.T) {
	t.Parallel()
	for _, cidr := range []string{"10.0.0.0", "10.0.0.0/33", "256.0.0.0/8", "10.0.0/8", "010.0.0.0/8", "fe80::/10", "::1/128", "ff00::/8", "::/0", "", "10.0.0.0/08"} {
		_, err := render(t, "{network: {enabled: true, spec: {parentCIDRs: {foo: ['"+cidr+"']}, injectionRules: []}}}")
		if says := fmt.Sprintf("network.spec.parentCIDRs.foo: %q is no IPv4 CIDR", cidr); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", cidr, err, says)
		}
		if _, _, err := network.Parse([]byte("spec: {parentCIDRs: {foo: ['" + cidr + "']}, injectionRules: []}\n")); err == nil {
			t.Errorf("the worker takes %q", cidr)
		}
	}
}

// TestElsewhere: if Gardener is in another cluster, pods have no service account token, policy and network
// ranges are files, and ports, grace period and egress follow the configuration.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	c := workerConfig(t, elsewhere)
	if c.Policy.File != "/etc/hap-worker-policy/policy.yaml" || c.Network.File != "/etc/hap-worker/network.yaml" || c.Telemetry.Listen != "0.0.0.0:9090" {
		t.Errorf("the configuration has %+v %+v %+v", c.Policy, c.Network, c.Telemetry)
	}
	out := mustRender(t, elsewhere)
	if out["ipamconfig.yaml"] != nil {
		t.Error("an IPAMConfig is made in a cluster where no worker reads it")
	}
	network := value(t, out["config.yaml"][0], "data", "network.yaml").(string)
	if !strings.Contains(network, "kind: IPAMConfig") || !strings.Contains(network, "10.27.0.0/16") {
		t.Errorf("network.yaml is %s", network)
	}
	pod := value(t, out["deployment.yaml"][0], "spec", "template", "spec").(map[string]any)
	port := pod["containers"].([]any)[0].(map[string]any)["ports"].([]any)[0].(map[string]any)["containerPort"]
	if pod["automountServiceAccountToken"] != false || toInt(pod["terminationGracePeriodSeconds"]) != 105 || toInt(port) != 9090 {
		t.Errorf("the pod has token %v, grace %v, port %v", pod["automountServiceAccountToken"], pod["terminationGracePeriodSeconds"], port)
	}
	here := value(t, mustRender(t, "")["deployment.yaml"][0], "spec", "template", "spec").(map[string]any)
	if here["automountServiceAccountToken"] != true || toInt(here["terminationGracePeriodSeconds"]) != 40 {
		t.Errorf("the pod beside Gardener has token %v, grace %v", here["automountServiceAccountToken"], here["terminationGracePeriodSeconds"])
	}
	var want map[string]any
	if err := sigsyaml.Unmarshal([]byte(`
podSelector: {matchLabels: {app.kubernetes.io/name: hap-worker, app.kubernetes.io/instance: r}}
policyTypes: [Ingress, Egress]
ingress:
- {ports: [{port: http, protocol: TCP}], from: [{podSelector: {}}]}
- {ports: [{port: http, protocol: TCP}], from: [{namespaceSelector: {}, podSelector: {matchLabels: {app.kubernetes.io/name: prometheus}}}]}
egress:
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
- {to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: nats}}}], ports: [{port: 4222, protocol: TCP}, {port: 4333, protocol: TCP}]}
- {to: [{podSelector: {matchLabels: {app: redis}}}], ports: [{port: 6379, protocol: TCP}]}
- {to: [{ipBlock: {cidr: 10.0.0.1/32}}], ports: [{port: 443, protocol: TCP}, {port: 6443, protocol: TCP}]}
- {to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: hap-otel}}}]}
`), &want); err != nil {
		t.Fatal(err)
	}
	if got := value(t, out["networkpolicy.yaml"][0], "spec"); !reflect.DeepEqual(got, any(want)) {
		t.Errorf("the policy is\n%v\nwant\n%v", got, want)
	}
	dashboard := value(t, out["dashboard.yaml"][0], "data", "hap-worker.json").(string)
	if !strings.Contains(dashboard, "hap_") || value(t, out["dashboard.yaml"][0], "metadata", "labels", "grafana_dashboard") != "1" {
		t.Error("the dashboard is not one that a sidecar loads")
	}
}

// toInt returns a number of a manifest, -1 if it is not a number.
func toInt(number any) int {
	switch number := number.(type) {
	case int64:
		return int(number)
	case float64:
		return int(number)
	}
	return -1
}

// TestPagePaths: Ingress and HTTPRoute lead to each path of the page, not to metrics and probes.
func TestPagePaths(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../worker/page/page.go")
	if err != nil {
		t.Fatal(err)
	}
	out := mustRender(t, elsewhere)
	rules := value(t, out["ingress.yaml"][0], "spec", "rules").([]any)
	served := map[string]bool{}
	for _, path := range rules[0].(map[string]any)["http"].(map[string]any)["paths"].([]any) {
		path := path.(map[string]any)
		served[path["pathType"].(string)+" "+path["path"].(string)] = true
	}
	routed := map[string]bool{}
	matches := value(t, out["httproute.yaml"][0], "spec", "rules").([]any)[0].(map[string]any)["matches"].([]any)
	for _, match := range matches {
		kind, _, _ := unstructured.NestedString(match.(map[string]any), "path", "type")
		at, _, _ := unstructured.NestedString(match.(map[string]any), "path", "value")
		routed[strings.TrimPrefix(kind, "Path")+" "+at] = true
	}
	first, _, _ := strings.Cut(access.CallbackPath[1:], "/")
	want := map[string]bool{"Prefix /" + first: true}
	for _, pattern := range regexp.MustCompile(`mux\.Handle(?:Func)?\("(?:GET|POST) (/[^"]*)"`).FindAllStringSubmatch(string(source), -1) {
		switch first, _, _ := strings.Cut(pattern[1][1:], "/"); first {
		case "": // what no other pattern has: not found
		case "{$}":
			want["Exact /"] = true
		default:
			want["Prefix /"+first] = true
		}
	}
	if !reflect.DeepEqual(served, want) || !reflect.DeepEqual(routed, want) {
		t.Errorf("the Ingress has %v, the HTTPRoute %v, the page %v", served, routed, want)
	}
}

// TestPageOfItsOwn: a page with a separate listener has a separate port everywhere, and its network policy is
// independent of the one for metrics. On loopback it has no port.
func TestPageOfItsOwn(t *testing.T) {
	t.Parallel()
	const page = "{telemetry: {page: {listen: '0.0.0.0:9443', tls: {cert: /c, key: /k}, oidc: {issuer: 'https://login.example', clientID: hap, redirectURL: 'https://hap.example/oidc/callback', groups: [a]}}}}"
	values := "{config: " + page + ", ingress: {enabled: true, host: hap.example}, httpRoute: {enabled: true, parentRefs: [{name: public}]}, networkPolicy: {page: [{podSelector: {matchLabels: {app: ingress}}}]}}"
	if c := workerConfig(t, values); c.Telemetry.Page.OIDC.Issuer != "https://login.example" {
		t.Errorf("the page is %+v", c.Telemetry.Page)
	}
	out := mustRender(t, values)
	pod := value(t, out["deployment.yaml"][0], "spec", "template", "spec").(map[string]any)
	got := sigs(t, map[string]any{
		"container": pod["containers"].([]any)[0].(map[string]any)["ports"], "service": value(t, out["service.yaml"][0], "spec", "ports"),
		"policy": value(t, out["networkpolicy.yaml"][0], "spec", "ingress"), "route": value(t, out["httproute.yaml"][0], "spec", "rules").([]any)[0].(map[string]any)["backendRefs"],
	})
	const want = `
container: [{name: http, containerPort: 8080, protocol: TCP}, {name: page, containerPort: 9443, protocol: TCP}]
service: [{name: http, port: 8080, targetPort: http, protocol: TCP}, {name: page, port: 8443, targetPort: page, protocol: TCP}]
policy:
- {ports: [{port: http, protocol: TCP}], from: [{podSelector: {}}]}
- {ports: [{port: page, protocol: TCP}], from: [{podSelector: {matchLabels: {app: ingress}}}]}
route: [{name: r-hap-worker, port: 8443}]
`
	var wanted map[string]any
	if err := sigsyaml.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if text := sigs(t, wanted); got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	rule := sigs(t, value(t, out["ingress.yaml"][0], "spec", "rules").([]any)[0])
	if strings.Contains(rule, "name: http") || !strings.Contains(rule, "name: page") {
		t.Errorf("the Ingress leads to\n%s", rule)
	}
	inside := mustRender(t, "{config: {telemetry: {page: {listen: '127.0.0.1:8443'}}}}")
	if ports := value(t, inside["service.yaml"][0], "spec", "ports").([]any); len(ports) != 1 {
		t.Errorf("a page on loopback has a port of the Service: %v", ports)
	}
}

// sigs returns a value as YAML with sorted keys.
func sigs(t *testing.T, v any) string {
	t.Helper()
	text, err := sigsyaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
