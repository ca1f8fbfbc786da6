package promises_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/simulation/promises"
)

var (
	own   = promises.In{Pool: "aws", Binding: "b-1"}
	block = promises.Block{Runtime: "rt-1", Rule: "pods", CIDR: netip.MustParsePrefix("10.0.0.0/31")}
)

// inOrder returns consistent facts: ga-1 on b-1 with one runtime, which has a Shoot and a block; b-2 is
// unclaimed.
func inOrder() *promises.Facts {
	return &promises.Facts{
		InForce:  map[string]events.Reply{"rt-1": {Status: events.StatusAssigned, Binding: &events.Binding{Name: "b-1", Generation: 1}}},
		Answered: map[promises.Claim]bool{{Binding: "b-1", Generation: 1}: true},
		Bindings: map[string]engine.Binding{
			"b-1": {Name: "b-1", HyperscalerType: "aws", Tenant: "ga-1", Generation: 1}, "b-2": {Name: "b-2", HyperscalerType: "aws"},
		},
		Shoots:   []engine.Shoot{{RuntimeID: "rt-1", Binding: "b-1"}},
		Records:  map[promises.In]account.Record{own: {State: account.InUse, Tenant: "ga-1", Generation: 1, Confirmed: true, Count: 1}},
		Runtimes: map[string][]promises.Runtime{"rt-1": {{Pool: "aws", Runtime: account.Runtime{State: account.RuntimeAssigned, Binding: "b-1"}}}},
		Given:    []promises.Block{block}, Held: []promises.Block{block},
	}
}

func broken(f *promises.Facts) (found []string) {
	bad := func(invariant, format string, args ...any) {
		found = append(found, invariant+": "+fmt.Sprintf(format, args...))
	}
	f.Counts(bad)
	f.Labels(bad)
	f.Blocks(bad)
	return found
}

// TestBroken damages consistent facts. Each damage is reported unless it is an exception.
func TestBroken(t *testing.T) {
	t.Parallel()
	if found := broken(inOrder()); len(found) > 0 {
		t.Errorf("in order: %v", found)
	}
	yes := func(name string) map[string]bool { return map[string]bool{name: true} }
	forgotten := func(f *promises.Facts) { f.InForce, f.Given, f.Shoots = nil, nil, nil }
	relabelled := func(f *promises.Facts) { f.Bindings["b-1"] = engine.Binding{Name: "b-1", HyperscalerType: "aws"} }
	for _, c := range []struct {
		says   string // "" for nothing
		damage func(*promises.Facts)
		except promises.Exceptions
	}{
		{"I6 CountsTrue: runtime rt-1 is on b-1 in Redis", forgotten, promises.Exceptions{}},
		{"I9 NoOverlap: 10.0.0.0/31 of rt-1 by rule pods is in Redis, and no cluster has it", forgotten, promises.Exceptions{}},
		{"", forgotten, promises.Exceptions{Excused: yes("rt-1")}},
		{"I9 NoOverlap", forgotten, promises.Exceptions{Waits: yes("rt-1")}},
		{"", forgotten, promises.Exceptions{Waits: yes("rt-1"), Passed: yes("rt-1")}},
		{"", func(*promises.Facts) {}, promises.Exceptions{Waits: yes("rt-1"), Passed: yes("rt-1")}}, // another request of an answered runtime
		{"I6 CountsTrue: b-1 is unclaimed", relabelled, promises.Exceptions{}},
		{"", relabelled, promises.Exceptions{Edited: yes("b-1")}},
		{"I6 CountsTrue: b-1 is unclaimed", relabelled, promises.Exceptions{Edited: yes("b-2"), Waits: yes("rt-1")}},
		{"", func(f *promises.Facts) {
			relabelled(f)
			f.Records[own] = account.Record{State: account.Claiming, Count: 1}
		}, promises.Exceptions{Waits: yes("rt-1")}},
		{"", func(f *promises.Facts) { // its tenant came back to it
			relabelled(f)
			f.Records[own] = account.Record{State: account.InUse, Count: 1}
		}, promises.Exceptions{Waits: yes("rt-1")}},
		{"I1 OneBinding: runtime rt-1 is assigned in 2 pools", func(f *promises.Facts) {
			f.Runtimes["rt-1"] = append(f.Runtimes["rt-1"], promises.Runtime{Pool: "gcp", Runtime: f.Runtimes["rt-1"][0].Runtime})
		}, promises.Exceptions{}},
		{"I6 CountsTrue: binding b-1 is counted 2 in pool gcp, and has 0", func(f *promises.Facts) {
			f.Records[promises.In{Pool: "gcp", Binding: "b-1"}] = account.Record{Count: 2}
		}, promises.Exceptions{}},
		{"I8 NothingLost: b-1 drains for ever", func(f *promises.Facts) {
			f.Shoots, f.Records[own] = nil, account.Record{State: account.Draining, Tenant: "ga-1", Generation: 1, Count: 1}
		}, promises.Exceptions{}},
		{"", func(f *promises.Facts) {
			f.Records[own] = account.Record{State: account.Draining, Tenant: "ga-1", Generation: 1, Count: 1}
		}, promises.Exceptions{}},
		{"I8 NothingLost: b-1 is idle for ever", func(f *promises.Facts) {
			forgotten(f)
			f.Runtimes, f.Held, f.Records[own] = nil, nil, account.Record{State: account.InUse, Tenant: "ga-1", Generation: 1}
		}, promises.Exceptions{}},
		{"I6 CountsTrue: the Shoot of runtime rt-2", func(f *promises.Facts) {
			f.Shoots = append(f.Shoots, engine.Shoot{RuntimeID: "rt-2", Binding: "b-2"})
		}, promises.Exceptions{}},
	} {
		f := inOrder()
		c.damage(f)
		f.Exceptions = c.except
		found := broken(f)
		told := slices.ContainsFunc(found, func(v string) bool { return strings.HasPrefix(v, c.says) })
		if c.says == "" && len(found) > 0 || c.says != "" && !told {
			t.Errorf("want %q, found %q", c.says, found)
		}
	}
}
