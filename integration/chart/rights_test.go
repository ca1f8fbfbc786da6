package chart_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/hap-worker/hap-worker/worker/config"
)

// right is a rule of a rendered Role or ClusterRole.
type right struct {
	in                      string // namespace of the Role, or name of the ClusterRole
	resources, names, verbs []string
}

// rightsOn returns the rendered rights on any of the resources.
func rightsOn(t *testing.T, values string, resources ...string) (found []right) {
	t.Helper()
	for _, o := range mustRender(t, values)["rights.yaml"] {
		rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
		for _, rule := range rules {
			list := func(key string) []string {
				all, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), key)
				return all
			}
			r := right{cmp.Or(o.GetNamespace(), o.GetName()), list("resources"), list("resourceNames"), list("verbs")}
			if slices.ContainsFunc(resources, func(one string) bool { return slices.Contains(r.resources, one) }) {
				found = append(found, r)
			}
		}
	}
	return found
}

// TestFollowedClusters: the worker follows labels and purposes of Clusters, and gets the rights to do so,
// only if the values say so.
func TestFollowedClusters(t *testing.T) {
	t.Parallel()
	permits(t, "clusters", map[string]string{
		"{rights: {create: true}, network: {enabled: true}}":                                         "",
		"{rights: {create: true}, network: {enabled: true, clusterConfigs: true}}":                   "get list patch",
		"{rights: {create: true}, network: {enabled: true, clusters: follow}}":                       "list watch",
		"{rights: {create: true}, network: {enabled: true, clusterConfigs: true, clusters: follow}}": "get list patch list watch",
		// config takes precedence
		"{rights: {create: true}, network: {enabled: true}, config: {network: {clusterConfigs: true}}}":                                                        "get list patch",
		"{rights: {create: true}, network: {enabled: true, clusterConfigs: true, clusters: follow}, config: {network: {clusterConfigs: false, clusters: ''}}}": "",
		"{rights: {create: true}, config: {network: {clusters: follow}}}":                                                                                      "list watch",
		"{rights: {create: true}, config: {network: {}}}":                                                                                                      "",
		"{rights: {create: true}, config: {network: {clusters: follow, clusterConfigs: true}, worker: {mode: shadow}}}":                                        "",
	})
	if got := workerConfig(t, "network: {enabled: true, clusters: follow}").Network.Clusters; got != config.FollowClusters {
		t.Errorf("network.clusters is %q in the worker's configuration", got)
	}
	if _, err := render(t, "network: {enabled: true, clusters: watch}"); err == nil {
		t.Error("a word that the worker does not know is rendered")
	}
}

// permits checks, by values, the verbs that the rendered rights permit with a resource.
func permits(t *testing.T, resource string, wanted map[string]string) {
	t.Helper()
	for values, want := range wanted {
		var verbs []string
		for _, r := range rightsOn(t, values, resource) {
			verbs = append(verbs, r.verbs...)
		}
		if got := strings.Join(verbs, " "); got != want {
			t.Errorf("%s: the right to %q %s, want %q", values, got, resource, want)
		}
	}
}

// TestRightsOfWhatTheWorkerReads: the rights name the ConfigMap and the IPAMConfig that the worker's configuration
// names, and no two landscapes share a ClusterRole.
func TestRightsOfWhatTheWorkerReads(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"{rights: {create: true}, policy: {enabled: true}}":                                                           "hap configmaps hap-policy",
		"{rights: {create: true}, policy: {enabled: true}, config: {policy: {namespace: garden-x, configMap: mine}}}": "garden-x configmaps mine",
		"{rights: {create: true}, config: {policy: {catalog: /c}}}":                                                   "hap configmaps hap-policy",
		"{rights: {create: true}, config: {policy: {catalog: /c, namespace: garden-x, configMap: mine}}}":             "garden-x configmaps mine",
		"{rights: {create: true}, policy: {enabled: true}, config: {policy: {file: /p}}}":                             "",
		"{rights: {create: true}, network: {enabled: true}}":                                                          "hap.r-hap-worker-network ipamconfigs ipam",
		"{rights: {create: true}, config: {network: {}}}":                                                             "hap.r-hap-worker-network ipamconfigs ipam",
		"{rights: {create: true}, config: {network: {config: ranges}}}":                                               "hap.r-hap-worker-network ipamconfigs ranges",
		"{rights: {create: true}, network: {enabled: true}, config: {network: {file: /n}}}":                           "",
		"{rights: {create: true}, network: {enabled: true}, config: {network: {config: ranges}}}":                     "hap.r-hap-worker-network ipamconfigs ranges",
		"{rights: {create: true}, network: {enabled: true}, config: {worker: {mode: shadow}}}":                        "",
	} {
		var got []string
		for _, r := range rightsOn(t, values, "configmaps", "ipamconfigs") {
			got = append(got, strings.Join(slices.Concat([]string{r.in}, r.resources, r.names), " "))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: rights %q, want %q", values, got, want)
		}
	}
}

// TestSecretsOfAShadow: the worker may read the Secrets of bindings, which hold the hyperscalers' credentials, only where
// Gardener asks for that: to change a binding, which a shadow does not.
func TestSecretsOfAShadow(t *testing.T) {
	t.Parallel()
	permits(t, "secrets", map[string]string{
		"{rights: {create: true}}": "get",
		"{rights: {create: true}, config: {gardener: {resource: secretbindings}}}":                  "get",
		"{rights: {create: true}, config: {worker: {mode: shadow}}}":                                "",
		"{rights: {create: true}, config: {gardener: {resource: secrets}}}":                         "get list watch patch",
		"{rights: {create: true}, config: {gardener: {resource: secrets}, worker: {mode: shadow}}}": "get list watch",
	})
}

// TestEventsOfBindings: the worker gets the right to write Events only if they are enabled, and only the
// verbs that it uses.
func TestEventsOfBindings(t *testing.T) {
	t.Parallel()
	permits(t, "events", map[string]string{
		"{rights: {create: true}}":                                                               "",
		"{rights: {create: true}, config: {gardener: {events: false}}}":                          "",
		"{rights: {create: true}, config: {gardener: {events: true}}}":                           "create patch",
		"{rights: {create: true}, config: {gardener: {events: true}, worker: {mode: shadow}}}":   "",
		"{rights: {create: true}, config: {gardener: {events: true, resource: secretbindings}}}": "create patch",
	})
	if !workerConfig(t, "config: {gardener: {events: true}}").Gardener.Events {
		t.Error("gardener.events is not in the worker's configuration")
	}
}
