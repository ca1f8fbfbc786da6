package integration_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestNetworkParentsChange shows what becomes of parents under clusters that use them.
func TestNetworkParentsChange(t *testing.T) {
	t.Parallel()
	parents := func(text string) string {
		return "parentCIDRs: {" + text + "}\ninjectionRules: [{id: all, injections: [{path: /net, subnetSize: 30}]}]\n"
	}
	c := newChanging(t, 1, parents("foo: [10.1.0.0/29]"))
	c.comes("first", "mcp", "/net=10.1.0.0/30")

	c.change(parents("foo: [10.1.0.0/29], zoo: [10.2.0.0/29]")) // added
	c.comes("second", "mcp", "/net=10.1.0.4/30")
	c.restart()
	c.comes("third", "mcp", "/net=10.2.0.0/30")

	c.change(parents("foo: [10.1.0.0/29, 10.3.0.0/29], zoo: [10.2.0.0/29]")) // widened
	c.comes("fourth", "mcp", "/net=10.3.0.0/30")
	c.restart()
	c.keeps("first", "/net=10.1.0.0/30")

	c.change(parents("foo: [10.1.0.0/30], zoo: [10.2.0.0/29]")) // shrunk under use
	c.comes("fifth", "mcp", "/net=10.2.0.4/30")
	c.restart()
	c.keeps("second", "/net=10.1.0.4/30")
	c.disjoint()

	c.change(parents("zoo: [10.2.0.0/28]")) // foo removed under use, zoo widened
	c.comes("sixth", "mcp", "/net=10.2.0.8/30")
	c.left(goes("second", "ga-1")) // what is gone does not come back as free
	c.awaitSettled()
	c.restart()
	c.comes("seventh", "mcp", "/net=10.2.0.12/30")
	c.keeps("first", "/net=10.1.0.0/30")

	c.change(parents("foo: [10.1.0.0/28], zoo: [10.2.0.0/28]")) // foo added again, otherwise
	c.comes("eighth", "mcp", "/net=10.1.0.4/30")
	c.restart()
	c.comes("ninth", "mcp", "/net=10.1.0.8/30")
	c.disjoint()
	delete(c.asked, "second")
	c.goAll()
}

// TestNetworkSelectorsChange shows what becomes of clusters that rules match otherwise
// than when they came. Two workers serve them, without a leader.
func TestNetworkSelectorsChange(t *testing.T) {
	t.Parallel()
	rule := func(id, path, purposes string) string {
		return fmt.Sprintf("- {id: %s, matchPurposes: [{operator: ContainsAny, values: [%s]}], injections: [{path: %s, parents: [foo], subnetSize: 28}]}\n", id, purposes, path)
	}
	const foo = "parentCIDRs: {foo: [10.1.0.0/24]}\ninjectionRules:\n"
	c := newChanging(t, 2, foo+rule("one", "/one", "mcp"))
	c.comes("mcp", "mcp", "/one=10.1.0.0/28")
	c.comes("test", "test")

	c.change(foo + rule("one", "/one", "mcp, test")) // widened
	if got := c.extended("test", 1, "/one"); got["/one"] != "10.1.0.16/28" {
		t.Errorf("the cluster that is matched by now has %v", got)
	}
	c.tells("one", "extended")
	c.restart()
	c.comes("test-2", "test", "/one=10.1.0.32/28")

	c.change(foo + rule("one", "/one", "test")) // narrowed
	c.comes("mcp-2", "mcp")
	c.restart()
	c.keeps("mcp", "/one=10.1.0.0/28")
	c.keeps("test", "/one=10.1.0.16/28")
	c.disjoint()

	c.change(foo + rule("two", "/two", "mcp")) // moved to another rule
	both := []string{c.extended("mcp-2", 1, "/two")["/two"]}
	moved := c.extended("mcp", 1, "/one", "/two")
	both = append(both, moved["/two"])
	slices.Sort(both)
	if !slices.Equal(both, []string{"10.1.0.48/28", "10.1.0.64/28"}) || moved["/one"] != "10.1.0.0/28" {
		t.Errorf("of the rule that matches them now they have %v; what it had is %v", both, moved)
	}
	c.restart()
	c.comes("test-3", "test")

	if err := c.stack.Redis.Lose(c.ctx); err != nil { // extra replies are remembered as answers are
		t.Fatal(err)
	}
	c.comes("mcp-3", "mcp", "/two=10.1.0.80/28")
	c.keeps("mcp", "/one=10.1.0.0/28", "/two="+moved["/two"])
	c.disjoint()

	assigned, _ := c.answers()
	for runtime, replies := range assigned {
		extra := slices.DeleteFunc(slices.Collect(maps.Keys(replies)), func(id string) bool { return !strings.Contains(id, "-net") })
		want := map[string]int{"mcp": 1, "mcp-2": 1, "test": 1}
		if len(extra) != want[runtime] {
			t.Errorf("%s has the extra replies %v, want %d", runtime, extra, want[runtime])
		}
	}
	c.goAll()
}

// TestNetworkExtendExhausted is a rule that comes to match more clusters than there
// is room for: who finds none is served once there is.
func TestNetworkExtendExhausted(t *testing.T) {
	t.Parallel()
	config := func(parents, rules string) string {
		return "parentCIDRs: {foo: [" + parents + "]}\ninjectionRules:" + rules
	}
	const rule = " [{id: late, injections: [{path: /late, subnetSize: 30}]}]\n"
	c := newChanging(t, 2, config("10.1.0.0/29", " []\n"))
	for i := range 3 {
		c.comes(fmt.Sprintf("rt-%d", i), "mcp")
	}
	c.change(config("10.1.0.0/29", rule))
	c.tells("late", "exhausted")
	c.change(config("10.1.0.0/29, 10.2.0.0/29", rule))
	for id := range c.asked {
		c.gains(id, "/late")
	}
	c.disjoint()
	c.goAll()
}

// TestNetworkRulesChange is rules that change, are named otherwise, go and come back.
func TestNetworkRulesChange(t *testing.T) {
	t.Parallel()
	const foo = "parentCIDRs: {foo: [10.1.0.0/24]}\ninjectionRules:"
	const other = " [{id: other, injections: [{path: /z, parents: [foo], subnetSize: 30}]}]\n"
	c := newChanging(t, 1, foo+" [{id: one, injections: [{path: /a, parents: [foo], subnetSize: 28}]}]\n")
	c.comes("first", "mcp", "/a=10.1.0.0/28")

	c.change(foo + " [{id: one, injections: [{path: /a, parents: [foo], subnetSize: 27}, {path: /b, parents: [foo], subnetSize: 28}]}]\n") // injections
	c.comes("second", "mcp", "/a=10.1.0.32/27", "/b=10.1.0.16/28")
	c.restart()
	c.keeps("first", "/a=10.1.0.0/28")
	c.disjoint()

	c.change(foo + " [{id: uno, injections: [{path: /a, parents: [foo], subnetSize: 28}]}]\n") // another id, the same path
	c.tells("uno", "skipped")
	c.comes("third", "mcp", "/a=10.1.0.64/28")
	c.restart()
	c.tells("uno", "skipped")
	c.keeps("first", "/a=10.1.0.0/28")

	c.change(foo + " [{id: other, injections: [{path: /z, parents: [foo], subnetSize: 30}]}]\n") // another id and path
	for _, id := range []string{"first", "second", "third"} {
		c.gains(id, "/z")
	}
	c.restart()
	c.disjoint()

	c.change(foo + " []\n") // removed
	c.comes("fourth", "mcp")
	c.restart()
	c.comes("fifth", "mcp")
	c.disjoint()

	c.change(foo + other) // added again
	for _, id := range []string{"fourth", "fifth"} {
		c.gains(id, "/z")
	}
	if r := c.reply(c.subjects.Reply("first", "req-first-net2")); r.Status != "" {
		t.Errorf("the rule that came back is applied again: %s %v", r.Status, r.Network)
	}
	c.invalid(foo + other)
	c.disjoint()
	c.goAll()
}
