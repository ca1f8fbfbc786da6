package integration_test

import (
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// followed is a landscape whose two workers follow Clusters.
type followed struct{ *changing }

// stands makes the labels and purposes of a Cluster these, and makes the Cluster first
// where there is none.
func (f *followed) stands(name string, labels map[string]string, purposes ...string) {
	f.t.Helper()
	all := []any{}
	for _, p := range purposes {
		all = append(all, p)
	}
	spec := map[string]any{"purposes": all}
	clusters := f.api.Resource(clustersResource).Namespace("clusters")
	if _, err := clusters.Get(f.ctx, name, metav1.GetOptions{}); err != nil {
		o := object("clusters.openmcp.cloud/v1alpha1", "Cluster", name, spec)
		o.SetLabels(labels)
		f.make(clustersResource, "clusters", o)
		return
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec})
	if err == nil {
		_, err = clusters.Patch(f.ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestNetworkFollowsClusters: with network.clusters: follow, rules that match a Cluster as it
// stands are applied to the runtime whose event named it, by an extra reply each, whether
// the Cluster comes before or after the event. A Cluster without an event gets nothing, and
// what was given stays.
func TestNetworkFollowsClusters(t *testing.T) {
	t.Parallel()
	rule := func(id, selector string) string {
		return fmt.Sprintf("- {id: %s, %s, injections: [{path: /%s, parents: [foo], subnetSize: 28}]}\n", id, selector, id)
	}
	spec := "parentCIDRs: {foo: [10.1.0.0/24]}\ninjectionRules:\n" +
		rule("mcp", "matchPurposes: [{operator: ContainsAll, values: [mcp]}]") +
		rule("test", "matchLabels: {env: test}") + rule("prod", "matchLabels: {env: prod}")
	config := oneAccountRules + "network: {config: ipam, clusters: follow, clusterConfigs: true}\ngardener: {namespace: garden-followed}\n"
	n := &networked{name: "ipam"}
	n.landscape = landscapeOn(t, startStack(t, stack.Options{Config: []byte(config), Accounts: accounts("aws", 1)}))
	n.configure(spec)
	n.make(namespaceResource, "", object("v1", "Namespace", "clusters", nil))
	f := followed{&changing{networked: n, asked: map[string]events.Event{}}}
	for range 2 {
		f.workers = append(f.workers, n.work(daemon.Options{}))
	}

	f.comes("after", "mcp", "/mcp=10.1.0.0/28")
	f.stands("after", map[string]string{"env": "test"}, "mcp")
	first := f.extended("after", 1, "/mcp", "/test")
	f.stands("after", map[string]string{"env": "prod"})
	if second := f.extended("after", 2, "/mcp", "/prod", "/test"); second["/mcp"] != "10.1.0.0/28" || second["/test"] != first["/test"] {
		t.Errorf("what was given is %v, then %v", first, second)
	}

	f.stands("before", map[string]string{"env": "test"}, "mcp")
	f.comes("before", "mcp", "/mcp=10.1.0.48/28")
	last := f.extended("before", 1, "/mcp", "/test")
	n.patches("before--ipam--test", "/test="+last["/test"])

	f.stands("alone", map[string]string{"env": "test"}, "mcp")
	f.comes("last", "mcp", "/mcp=10.1.0.80/28")
	f.stands("last", map[string]string{"env": "test"}, "mcp")
	if got := f.extended("last", 1, "/mcp", "/test"); got["/test"] != "10.1.0.96/28" {
		t.Errorf("the last cluster has %v: the pass before it gave a block to a Cluster without an event", got)
	}
}
