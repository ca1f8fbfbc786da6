// Package chart_test renders the Helm chart, and passes the result to the worker
// that is to read it and to a real Kubernetes API.
package chart_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/worker/config"
)

const chartDir = "../../deploy/helm/hap-worker"

// decided are the values that a landscape without TLS needs; most tests render such a landscape.
const decided = "{plainConnections: {nats: true, redis: true}}"

// render returns the manifests of a release by template, or the error of the schema or of a template. It adds
// decided to the values.
func render(t *testing.T, values string) (map[string][]*unstructured.Unstructured, error) {
	t.Helper()
	return renderOf(t, decided, values)
}

// renderOf is render for several values, without decided; later values take precedence.
func renderOf(t *testing.T, values ...string) (map[string][]*unstructured.Unstructured, error) {
	t.Helper()
	files, err := filesOf(t, values...)
	if err != nil {
		return nil, err
	}
	out := map[string][]*unstructured.Unstructured{}
	for file, content := range files {
		if name := path.Base(file); path.Ext(name) == ".yaml" {
			if objects := manifests(t, name, content); len(objects) > 0 {
				out[name] = objects
			}
		}
	}
	return out, nil
}

// filesOf returns the rendered files as text.
func filesOf(t *testing.T, values ...string) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	for _, text := range values {
		more := map[string]any{}
		if err := sigsyaml.Unmarshal([]byte(text), &more); err != nil {
			t.Fatal(err)
		}
		given = chartutil.CoalesceTables(more, given)
	}
	release := chartutil.ReleaseOptions{Name: "r", Namespace: "hap", IsInstall: true, Revision: 1}
	full, err := chartutil.ToRenderValues(chart, given, release, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, full)
}

func mustRender(t *testing.T, values string) map[string][]*unstructured.Unstructured {
	t.Helper()
	out, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func manifests(t *testing.T, name, content string) (objects []*unstructured.Unstructured) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(content)), 4096)
	for {
		object := map[string]any{}
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatalf("%s is no YAML: %v\n%s", name, err, content)
		case len(object) > 0:
			objects = append(objects, &unstructured.Unstructured{Object: object})
		}
	}
}

// value returns the value at a path of a manifest. It fails the test if there is none.
func value(t *testing.T, object *unstructured.Unstructured, at ...string) any {
	t.Helper()
	v, found, err := unstructured.NestedFieldNoCopy(object.Object, at...)
	if err != nil || !found {
		t.Fatalf("%s %s has nothing at %v: %v", object.GetKind(), object.GetName(), at, err)
	}
	return v
}

// workerConfig renders the values, and returns the workers' configuration as a worker reads it.
func workerConfig(t *testing.T, values string) *config.Config {
	t.Helper()
	return load(t, value(t, mustRender(t, values)["config.yaml"][0], "data", "config.yaml").(string))
}

// load reads a configuration as a worker does.
func load(t *testing.T, text string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil)
	if err != nil {
		t.Fatalf("the worker refuses its configuration: %v\n%s", err, text)
	}
	return c
}

// everything enables each part of the chart.
const everything = `
policy:
  enabled: true
  catalogConfigMap: catalog
  document: |
    apiVersion: 0.1.0
    rules: {}
network:
  enabled: true
  clusterConfigs: true
  spec: {parentCIDRs: {foo: [10.27.0.0/16]}, injectionRules: [{id: all, injections: [{path: .spec.network.cidr, parents: [foo], subnetSize: 24}]}]}
secrets: {nats: {secretName: hap-nats}}
rights: {create: true}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}, runbook: "https://runbooks.example/hap"}
keda: {enabled: true}
networkPolicy: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}
config: {nats: {credentials: /etc/hap-worker-secrets/nats/user.creds}, gardener: {namespace: garden-kyma}}
`

// TestTemplates lists the templates that each set of values renders.
func TestTemplates(t *testing.T) {
	t.Parallel()
	plain := []string{"config.yaml", "deployment.yaml", "networkpolicy.yaml", "poddisruptionbudget.yaml", "service.yaml", "serviceaccount.yaml"}
	for values, want := range map[string][]string{
		"":         plain,
		everything: append(slices.Clone(plain), "ipamconfig.yaml", "policy.yaml", "prometheusrule.yaml", "rights.yaml", "scaledobject.yaml", "servicemonitor.yaml"),
		"{serviceAccount: {create: false}, networkPolicy: {enabled: false}, podDisruptionBudget: {enabled: false}}": {"config.yaml", "deployment.yaml", "service.yaml"},
	} {
		got := slices.Sorted(maps.Keys(mustRender(t, values)))
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s\n got %v\nwant %v", values, got, want)
		}
	}
}

// TestAlertRules: the rendered alerts are those of deploy/prometheus, except for the address of the runbook.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	address := strings.ReplaceAll(string(file), "https://github.com/hap-worker/hap-worker/blob/main/docs/runbook.md#", "https://runbooks.example/hap#")
	if err := sigsyaml.Unmarshal([]byte(address), &want); err != nil {
		t.Fatal(err)
	}
	rules := mustRender(t, everything)["prometheusrule.yaml"][0]
	if got := value(t, rules, "spec"); !reflect.DeepEqual(got, any(want)) {
		t.Errorf("the rules are\n%v\nwant\n%v", got, want)
	}
	if got := value(t, rules, "metadata", "labels", "release"); got != "prometheus" {
		t.Errorf("the label release is %v", got)
	}
}

// TestValuesRefused shows what the schema refuses in values, before anything is installed.
func TestValuesRefused(t *testing.T) {
	t.Parallel()
	for values, says := range map[string]string{
		"replica: 3":                                   "replica",
		"replicas: many":                               "replicas",
		"{config: {gardener: {namespace: ''}}}":        "namespace",
		"{config: {gardener: {resource: configmaps}}}": "resource",
		"{config: {gardner: {}}}":                      "gardner",
		"{image: {digest: latest}}":                    "digest",
		"{hap: {rule: aws}}":                           "rule",
		"{secrets: {Nats_1: {secretName: x}}}":         "Nats_1",
		"{keda: {maxReplicas: 0}}":                     "maxReplicas",
		"{keda: {minReplicas: 0}}":                     "minReplicas",
		"{serviceMonitor: {interval: often}}":          "interval",
		"{prometheusRule: {runbook: ''}}":              "runbook",
		"{rights: {create: yes please}}":               "rights",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want a word about %s", values, err, says)
		}
	}
}

// TestImage: a digest takes precedence over the tag, so moving a tag does not change a release.
func TestImage(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a1", 32)
	for values, want := range map[string]string{
		"": "hap-worker/hap-worker:", "{image: {repository: r.example/hap, tag: v1}}": "r.example/hap:v1",
		"{image: {repository: r.example/hap, tag: v1, digest: '" + digest + "'}}": "r.example/hap@" + digest,
	} {
		pod := value(t, mustRender(t, values)["deployment.yaml"][0], "spec", "template", "spec").(map[string]any)
		if image := pod["containers"].([]any)[0].(map[string]any)["image"].(string); !strings.HasPrefix(image, want) || strings.Contains(want, "v1") && image != want {
			t.Errorf("%s has the image %s, want %s", values, image, want)
		}
	}
}

// TestConfig renders the worker's configuration from values, with a broker's section hap unchanged.
func TestConfig(t *testing.T) {
	t.Parallel()
	section, err := os.ReadFile("testdata/keb-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := workerConfig(t, string(section))
	if len(c.HAP.Rule) != 11 || c.HAP.MultiHyperscalerAccount.Limits["aws"] != 180 {
		t.Errorf("section hap is %+v", c.HAP)
	}
	c = workerConfig(t, everything)
	if c.Policy.Catalog != "/etc/hap-worker-catalog/catalog.yaml" || c.Policy.Namespace != "hap" || !c.Network.ClusterConfigs ||
		c.NATS.Credentials != "/etc/hap-worker-secrets/nats/user.creds" || c.NATS.URL[0] != "nats://nats:4222" {
		t.Errorf("configuration %+v %+v %+v", c.Policy, c.Network, c.NATS)
	}
	if section, err = os.ReadFile("testdata/keb-values-older.yaml"); err != nil {
		t.Fatal(err)
	}
	if older := workerConfig(t, string(section)); older.HAP.Rule != nil || older.HAP.EUAccessRule != "azure:cf-ch20;aws:cf-eu11" || older.HAP.SharedRule == "" {
		t.Errorf("the older section hap is %+v", older.HAP)
	}
	four := workerConfig(t, "hap: {rule: null, platformRegionRule: 'gcp:cf-sa30', clusterRegionRule: sap-converged-cloud, sharedRule: trial, euAccessRule: ''}")
	if len(four.HAP.Rule) != 0 {
		t.Errorf("rules %v beside the older form", four.HAP.Rule)
	}
}

// TestProviderOfTrialAndFree: without a provider in the request, these plans get the default, which values
// may change.
func TestProviderOfTrialAndFree(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"": "aws",
		"hap: {plans: {trial: {providers: [aws, azure], default: azure}, free: {providers: [azure]}}}": "azure",
	} {
		decisions, err := workerConfig(t, values).Decisions()
		if err != nil {
			t.Fatal(err)
		}
		for _, plan := range []string{"trial", "free"} {
			if got, err := decisions.Rules().Plans().Provider(plan, ""); err != nil || got != want {
				t.Errorf("%s: plan %s has the provider %s, %v; want %s", values, plan, got, err, want)
			}
		}
	}
}

// TestPolicyOverride installs a policy, and replaces it.
func TestPolicyOverride(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"policy: {enabled: true, document: 'rules: {}'}":                              "rules: {}",
		"policy: {enabled: true, document: 'rules: {}', overrides: 'rules: {x: {}}'}": "rules: {x: {}}",
	} {
		text := value(t, mustRender(t, values)["policy.yaml"][0], "data", "policy.yaml").(string)
		if strings.TrimSpace(text) != want {
			t.Errorf("%s gives the policy %q", values, text)
		}
	}
}

// TestPolicyValues merges the values of an installation into a policy, rule by rule. The worker accepts the
// result.
func TestPolicyValues(t *testing.T) {
	t.Parallel()
	const base = "{apiVersion: 0.1.0, rules: {cap.interface.a: {oneOf: []}, cap.*: {oneOf: [{implementationConstraints: {path: cap.implementation.a}}, {}]}}}"
	const over = "{rules: {cap.*: {oneOf: [{}]}, cap.interface.b: {oneOf: []}}}"
	for values, want := range map[string]string{
		"document: " + base:                                      base,
		"document: " + base + ", overrides: " + over:             "{apiVersion: 0.1.0, rules: {cap.interface.a: {oneOf: []}, cap.*: {oneOf: [{}]}, cap.interface.b: {oneOf: []}}}",
		"document: '" + base + "', overrides: " + over:           "{apiVersion: 0.1.0, rules: {cap.interface.a: {oneOf: []}, cap.*: {oneOf: [{}]}, cap.interface.b: {oneOf: []}}}",
		"document: " + base + ", overrides: '" + base + "'":      base,
		"overrides: " + base:                                     base,
		"document: {rules: {cap.*: {oneOf: [{}]}}}":              "{apiVersion: 0.1.0, rules: {cap.*: {oneOf: [{}]}}}",
		"overrides: " + over:                                     "{apiVersion: 0.1.0, rules: {cap.*: {oneOf: [{}]}, cap.interface.b: {oneOf: []}}}",
		"document: " + base + ", overrides: {apiVersion: '0.1'}": "{apiVersion: '0.1', rules: {cap.interface.a: {oneOf: []}, cap.*: {oneOf: [{implementationConstraints: {path: cap.implementation.a}}, {}]}}}",
	} {
		text := value(t, mustRender(t, "policy: {enabled: true, "+values+"}")["policy.yaml"][0], "data", "policy.yaml").(string)
		got, err := policy.Parse([]byte(text))
		if err != nil {
			t.Errorf("%s renders\n%s\n%v", values, text, err)
			continue
		}
		wanted, err := policy.Parse([]byte(want))
		if err != nil {
			t.Fatal(err)
		}
		if d := policy.Compare(wanted, got); !d.None() {
			t.Errorf("%s renders\n%s\n%+v", values, text, d)
		}
	}
	for values, says := range map[string]string{
		"overrides: {rules: {cap.*: {oneof: []}}}":                              "oneof",
		"overrides: {rulez: {}}":                                                "rulez",
		"document: 'rules: [', overrides: {rules: {cap.*: {oneOf: []}}}":        "policy.document is no YAML",
		"document: {apiVersion: 0.1.0, rules: {cap.*: {oneOf: [{inject: 1}]}}}": "inject",
	} {
		if _, err := render(t, "policy: {enabled: true, "+values+"}"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want a word about %s", values, err, says)
		}
	}
}

// TestRestarts lists the changes that restart the workers. Changed rules do not.
func TestRestarts(t *testing.T) {
	t.Parallel()
	sum := func(values string) any {
		return value(t, mustRender(t, values)["deployment.yaml"][0], "spec", "template", "metadata", "annotations", "checksum/config")
	}
	if sum("") != sum("{hap: {rule: [aws]}}") {
		t.Error("changed rules restart the workers, which take them over as they run")
	}
	if sum("") == sum("{config: {nats: {url: 'nats://other:4222'}}}") {
		t.Error("another NATS does not restart the workers")
	}
}

// TestEnvironment: GOMEMLIMIT follows the container's memory limit, and the variables of the values come
// after it.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	deployment := mustRender(t, "{env: [{name: HAP_TELEMETRY_LOGLEVEL, value: debug}]}")["deployment.yaml"][0]
	pod := value(t, deployment, "spec", "template", "spec").(map[string]any)
	container := pod["containers"].([]any)[0].(map[string]any)
	want := []any{
		map[string]any{"name": "GOMEMLIMIT", "valueFrom": map[string]any{"resourceFieldRef": map[string]any{"resource": "limits.memory"}}},
		map[string]any{"name": "HAP_TELEMETRY_LOGLEVEL", "value": "debug"},
	}
	if got := container["env"]; !reflect.DeepEqual(got, want) {
		t.Errorf("the environment is %v, want %v", got, want)
	}
}

// TestSecurity lists the restrictions of a pod.
func TestSecurity(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", everything} {
		deployment := mustRender(t, values)["deployment.yaml"][0]
		pod := value(t, deployment, "spec", "template", "spec").(map[string]any)
		container := pod["containers"].([]any)[0].(map[string]any)
		for at, want := range map[string]any{
			"pod runAsNonRoot":                   true,
			"pod seccompProfile type":            "RuntimeDefault",
			"container allowPrivilegeEscalation": false,
			"container privileged":               false,
			"container readOnlyRootFilesystem":   true,
		} {
			words := strings.Fields(at)
			context := map[string]any{"pod": pod, "container": container}[words[0]].(map[string]any)["securityContext"].(map[string]any)
			got, _, err := unstructured.NestedFieldNoCopy(context, words[1:]...)
			if err != nil || got != want {
				t.Errorf("%s is %v, want %v", at, got, want)
			}
		}
		if drop, _, _ := unstructured.NestedStringSlice(container, "securityContext", "capabilities", "drop"); !slices.Equal(drop, []string{"ALL"}) {
			t.Errorf("capabilities dropped: %v", drop)
		}
		for _, mount := range container["volumeMounts"].([]any) {
			if mount.(map[string]any)["readOnly"] != true {
				t.Errorf("mount %v may be written", mount)
			}
		}
	}
}
