package ranges

import (
	"errors"
	"testing"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// clustersFake are the present Clusters, by name.
type clustersFake map[string]network.Cluster

func (c clustersFake) Now(id network.Identity) (network.Cluster, bool) {
	now, there := c[id.Name]
	return now, there && id.Namespace == "n"
}

// purposed returns a configuration whose rules inject a block into clusters with a purpose, at the path of
// the id.
func purposed(purposes ...string) *network.Config {
	config := &network.Config{}
	for _, p := range purposes {
		config.Rules = append(config.Rules, network.Rule{
			ID:         p,
			Selector:   network.Selector{Purposes: []network.Purposes{{Operator: network.ContainsAll, Values: []string{p}}}},
			Injections: []network.Injection{{Paths: []string{"/" + p}, Parents: []string{"foo"}, Size: 28}},
		})
	}
	return config
}

func serving(name string, purposes ...string) network.Cluster {
	return network.Cluster{Name: name, Namespace: "n", Purposes: purposes}
}

// TestFollowedClusterIsServed: rules match the present Cluster, or the event's data if there is none.
// Allotted blocks stay.
func TestFollowedClusterIsServed(t *testing.T) {
	t.Parallel()
	x := newExtending(t)
	for i, name := range []string{"one", "two", "three"} {
		r := events.Reply{
			RequestID: "req-" + name, RuntimeID: name, Status: events.StatusAssigned, GlobalAccountID: "ga",
			Binding:  &events.Binding{Name: "aws-1", Claimed: i == 0},
			Decision: &events.Decision{Sequence: int64(i + 1), Pool: "aws", Origin: "claimed"},
			Cluster:  &events.Cluster{Name: name, Namespace: "n", Purposes: []string{"a"}},
		}
		if name == "three" {
			r.Cluster.Namespace = "" // no Cluster can be meant
		}
		if _, err := x.archive.Publish(t.Context(), x.subjects.Reply(name, r.RequestID), r, 0); err != nil {
			t.Fatal(err)
		}
	}
	there := clustersFake{"one": serving("one", "b"), "three": serving("three", "b")}
	worker := x.worker()
	worker.Networks = configFake(purposed("a", "b", "c"))
	synced := false
	worker.Follower = &Follower{Now: there.Now, Synced: func() bool { return synced }, Networks: worker.Networks}
	if err := worker.Pass(t.Context()); !errors.Is(err, errUnsynced) {
		t.Fatal(err)
	}
	x.want("one", map[string]string{})
	synced = true
	x.pass(worker)
	x.want("one", map[string]string{"req-one-net1": "b"})
	x.want("two", map[string]string{"req-two-net1": "a"})
	x.want("three", map[string]string{"req-three-net1": "a"})

	there["one"], there["two"] = serving("one", "c"), serving("two")
	x.pass(worker)
	x.pass(worker)
	x.want("one", map[string]string{"req-one-net1": "b", "req-one-net2": "b c"})
	x.want("two", map[string]string{"req-two-net1": "a"})
}

// TestFollowerAsks: a Cluster is to be served only if a rule matches that did not match before, and a runtime only if
// its answer lacks a rule that matches.
func TestFollowerAsks(t *testing.T) {
	t.Parallel()
	asked := ""
	there := clustersFake{"one": serving("one", "a", "b")}
	f := &Follower{
		Now: there.Now, Networks: configFake(purposed("a", "b")),
		Soon: func(runtime string) { asked += runtime }, SoonOf: func(id network.Identity) { asked += id.Namespace + "/" + id.Name },
	}
	cluster := func(purposes ...string) *network.Cluster { c := serving("one", purposes...); return &c }
	answer := events.Reply{RuntimeID: "rt", Cluster: &events.Cluster{Name: "one", Namespace: "n", Purposes: []string{"a"}}}
	held := func(rules ...string) (applied []network.Applied) {
		for _, rule := range rules {
			applied = append(applied, network.Applied{Rule: rule})
		}
		return applied
	}
	for name, c := range map[string]struct {
		change func()
		want   string
	}{
		"comes, and none matches": {func() { f.Changed(nil, cluster("x")) }, ""},
		"changes for none":        {func() { f.Changed(cluster("a"), cluster("a", "x")) }, ""},
		"a rule matches no more":  {func() { f.Changed(cluster("a", "b"), cluster("b")) }, ""},
		"has all when answered":   {func() { f.answered(answer, held("a", "b")) }, ""},
		"is answered without one": {func() { f.answered(events.Reply{}, nil) }, ""},
		"comes":                   {func() { f.Changed(nil, cluster("a")) }, "n/one"},
		"changes":                 {func() { f.Changed(cluster("a"), cluster("b")) }, "n/one"},
		"lacks one when answered": {func() { f.answered(answer, held("a")) }, "rt"},
	} {
		asked = ""
		if c.change(); asked != c.want {
			t.Errorf("%s: asked for %q, want %q", name, asked, c.want)
		}
	}
	asked, f.Networks = "", configFake(nil)
	f.Changed(nil, cluster("a"))
	if f.answered(answer, nil); asked != "" {
		t.Errorf("without rules: asked for %q", asked)
	}
}

// Without a Follower, selectors use the event's data.
func TestNobodyIsFollowed(t *testing.T) {
	t.Parallel()
	var none *Follower
	said := &events.Cluster{Name: "one", Namespace: "n", Purposes: []string{"a"}}
	if got := none.standing(said, ""); len(got.Purposes) != 1 {
		t.Errorf("%+v", got)
	}
	none.answered(events.Reply{Cluster: said}, nil)
}
