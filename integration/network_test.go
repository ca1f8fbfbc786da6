package integration_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// twoRules slices /28 for mcp clusters, and a /24 with a /30 inside it for test clusters.
const twoRules = `
parentCIDRs: {foo: [10.27.0.0/16], bar: [10.28.0.0/24]}
injectionRules:
- id: mcp-clusters
  matchPurposes: [{operator: ContainsAll, values: [mcp]}]
  injections: [{path: .spec.network.cidr, parents: [foo, bar], subnetSize: 28}]
- id: test
  matchLabels: {clusters.openmcp.cloud/test: "true"}
  matchPurposes: [{operator: ContainsNone, values: [mcp, onboarding, platform, workload]}]
  injections:
  - {id: test-cidr, path: /spec/network/subnetA, parents: [foo], subnetSize: 24}
  - {path: .spec.network.subnetB, parents: [test-cidr], subnetSize: 30}
`

var ipamConfigs = schema.GroupVersionResource{Group: "gardener.clusters.openmcp.cloud", Version: "v1alpha1", Resource: "ipamconfigs"}

// ipams tell their IPAMConfigs apart.
var ipams atomic.Int32

// networked is a landscape whose workers follow its own IPAMConfig.
type networked struct {
	*landscape
	name string
}

func newNetworked(t *testing.T, config, spec string, all []stack.Account) *networked {
	t.Helper()
	n := &networked{name: fmt.Sprintf("ipam-%d", ipams.Add(1))}
	n.landscape = newLandscape(t, oneAccountRules+config+fmt.Sprintf("network: {config: %s}\n", n.name), all)
	n.configure(spec)
	t.Cleanup(func() {
		_ = n.api.Resource(ipamConfigs).Delete(n.ctx, n.name, metav1.DeleteOptions{})
	})
	return n
}

// configure writes the IPAMConfig.
func (n *networked) configure(spec string) {
	n.t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		n.t.Fatal(err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	o.SetAPIVersion("gardener.clusters.openmcp.cloud/v1alpha1")
	o.SetKind("IPAMConfig")
	o.SetName(n.name)
	if _, err := n.api.Resource(ipamConfigs).Apply(n.ctx, n.name, o, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		n.t.Fatal(err)
	}
}

// cluster is a provision of a cluster with these purposes and labels.
func cluster(id, tenant string, purposes []string, labels map[string]string) events.Event {
	e := ask(id, tenant)
	e.Provision.Cluster = &events.Cluster{Name: id, Namespace: "clusters", Purposes: purposes, Labels: labels}
	return e
}

// ranges are the blocks of a reply by path.
func ranges(r events.Reply) map[string]string {
	out := map[string]string{}
	for _, block := range r.Network {
		for _, path := range block.Paths {
			out[path] = block.CIDR
		}
	}
	return out
}

// given waits for an assignment and returns its blocks by path.
func (n *networked) given(e events.Event) map[string]string {
	n.t.Helper()
	r := n.answered(e)
	if r.Status != events.StatusAssigned {
		n.t.Fatalf("the provision of %s is %s %+v", e.RuntimeID, r.Status, r.Error)
	}
	return ranges(r)
}

// TestNetwork is the example of two rules: blocks in replies, and in the Shoot that a
// reply's patch is applied to; given back when their cluster goes; the same after
// everything in Redis is lost.
func TestNetwork(t *testing.T) {
	t.Parallel()
	n := newNetworked(t, "", twoRules, accounts("aws", 1))
	n.work(daemon.Options{})
	mcp := cluster("rt-mcp", "ga-1", []string{"mcp"}, nil)
	test := cluster("rt-test", "ga-1", nil, map[string]string{"clusters.openmcp.cloud/test": "true"})
	n.provision(mcp)
	if got := n.given(mcp); len(got) != 1 || got["/spec/network/cidr"] != "10.27.0.0/28" {
		t.Errorf("the mcp cluster has %v", got)
	}
	n.provision(test)
	got := n.given(test)
	a, errA := netip.ParsePrefix(got["/spec/network/subnetA"])
	b, errB := netip.ParsePrefix(got["/spec/network/subnetB"])
	if errA != nil || errB != nil || len(got) != 2 || a.Bits() != 24 || b.Bits() != 30 || !a.Contains(b.Addr()) {
		t.Errorf("the test cluster has %v", got)
	}
	n.applied(n.answered(test), a.String(), b.String())

	if err := n.stack.Redis.Lose(n.ctx); err != nil {
		t.Fatal(err)
	}
	second := cluster("rt-second", "ga-1", []string{"mcp"}, nil)
	n.provision(second)
	if got := n.given(second); got["/spec/network/cidr"] != "10.27.0.16/28" {
		t.Errorf("after a loss the next mcp cluster has %v", got)
	}
	again := mcp
	again.ID = "asks-again"
	n.provision(again)
	if got := n.given(again); got["/spec/network/cidr"] != "10.27.0.0/28" {
		t.Errorf("asked again the mcp cluster has %v", got)
	}
	for _, e := range []events.Event{mcp, test, second} {
		n.left(goes(e.RuntimeID, "ga-1"))
	}
	n.awaitSettled()
	state, err := blocks.New(sources(t, n.stack, n.js, n.subjects).Counters).State(n.ctx)
	if err != nil || len(state.Records) != 0 {
		t.Errorf("after every cluster is gone: %+v, %v", state.Records, err)
	}
}

// applied applies a reply's merge patch to a Shoot that has no network section, and its
// patch to one that has.
func (n *networked) applied(r events.Reply, a, b string) {
	n.t.Helper()
	shoot := mergedBy(n.t, r, `{"kind":"Shoot","spec":{"region":"x"}}`)
	if same, err := patchedBy(n.t, r, `{"kind":"Shoot","spec":{"region":"x","network":{}}}`); err != nil || !jsonpatch.Equal(same, shoot) {
		n.t.Errorf("the patch makes %s, %v, the merge patch %s", same, err, shoot)
	}
	for _, want := range []string{`"subnetA":"` + a + `"`, `"subnetB":"` + b + `"`, `"credentialsBindingName":"aws-01"`, `"region":"x"`} {
		if !strings.Contains(string(shoot), want) {
			n.t.Errorf("the Shoot is %s, without %s", shoot, want)
		}
	}
}

// TestNetworkFull is a parent with room for two: who finds none waits, holds no
// account meanwhile, and is served when a block comes free; or is refused at its
// deadline with what is left.
func TestNetworkFull(t *testing.T) {
	t.Parallel()
	const small = "parentCIDRs: {tiny: [10.1.0.0/29]}\ninjectionRules: [{id: all, injections: [{path: .spec.network.cidr, parents: [tiny], subnetSize: 30}]}]\n"
	n := newNetworked(t, "", small, accounts("aws", 3))
	n.work(daemon.Options{})
	first, second, third := cluster("rt-1", "ga-1", nil, nil), cluster("rt-2", "ga-2", nil, nil), cluster("rt-3", "ga-3", nil, nil)
	n.provision(first, second)
	n.given(first)
	n.given(second)
	n.provision(third)
	if r := n.waits(third); r.Waiting.Reason != events.WaitingNetworkFull || r.Binding != nil {
		t.Errorf("the third waits as %+v", r.Waiting)
	}
	free := 0
	for _, account := range accounts("aws", 3) {
		if n.binding(account.Name).Tenant == "" {
			free++
		}
	}
	if free != 1 {
		t.Errorf("%d accounts are free, want 1: who waits for a block holds no account", free)
	}
	if err := n.stack.Redis.Lose(n.ctx); err != nil { // it waits on for a block, and for no account
		t.Fatal(err)
	}
	again := first
	again.ID = "asks-again"
	n.provision(again)
	n.given(again)
	if r := n.waits(third); r.Waiting.Reason != events.WaitingNetworkFull {
		t.Errorf("after a loss of Redis the third waits as %+v", r.Waiting)
	}
	if queue, err := sources(t, n.stack, n.js, n.subjects).Counters.Queue(n.ctx, "aws"); err != nil || len(queue) > 0 {
		t.Errorf("after a loss of Redis %v wait for an account, %v", queue, err)
	}
	n.left(goes(first.RuntimeID, "ga-1"))
	if got := n.given(third); got["/spec/network/cidr"] == "" {
		t.Errorf("the third has %v", got)
	}
}

// TestNetworkExtendFreed is a rule that found no room for clusters that it came to
// match: it is tried again once a block comes free, without a refresh cycle.
func TestNetworkExtendFreed(t *testing.T) {
	t.Parallel()
	const parents = "parentCIDRs: {foo: [10.1.0.0/30]}\ninjectionRules:"
	c := newChanging(t, 1, parents+" []\n")
	for i := range 3 {
		c.comes(fmt.Sprintf("rt-%d", i), "mcp")
	}
	c.change(parents + " [{id: late, injections: [{path: /late, subnetSize: 31}]}]\n")
	c.tells("late", "exhausted")
	has := func() (with, without []string) {
		for id := range c.asked {
			if ranges(c.reply(c.subjects.Reply(id, c.asked[id].ID+"-net1")))["/late"] != "" {
				with = append(with, id)
			} else {
				without = append(without, id)
			}
		}
		return with, without
	}
	var with, without []string
	eventually(c.ctx, t, func() error {
		if with, without = has(); len(with) != 2 {
			return fmt.Errorf("%v have a block, %v have none", with, without)
		}
		return nil
	})
	const unserved = `hap_network_unserved_clusters{rule="late"}`
	c.shows(c.workers[0], unserved, "1")
	c.left(goes(with[0], "ga-1"))
	delete(c.asked, with[0])
	c.gains(without[0], "/late")
	c.shows(c.workers[0], unserved, "")
	c.disjoint()
	c.goAll()
}

// TestNetworkExhausted is a landscape that does not let requests wait.
func TestNetworkExhausted(t *testing.T) {
	t.Parallel()
	const none = "parentCIDRs: {tiny: [10.1.0.0/30]}\ninjectionRules: [{id: all, injections: [{path: .spec.network.cidr, parents: [tiny], subnetSize: 31}]}]\n"
	n := newNetworked(t, "", none, accounts("aws", 3))
	n.edit("hap:\n", "hap:\n  waiting: {timeout: 0s}\n")
	n.work(daemon.Options{})
	for i := range 2 {
		e := cluster(fmt.Sprintf("rt-%d", i), "ga-1", nil, nil)
		n.provision(e)
		n.given(e)
	}
	e := cluster("rt-late", "ga-2", nil, nil)
	n.provision(e)
	r := n.answered(e)
	refusedWith(t, r, engine.CodeNetworkExhausted)
	for _, word := range []string{"all", "/spec/network/cidr", "tiny"} {
		if !strings.Contains(r.Error.Message, word) {
			t.Errorf("the refusal does not name %s: %s", word, r.Error.Message)
		}
	}
}
