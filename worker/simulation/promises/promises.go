// Package promises checks invariants of docs/protocol.md while nothing is in flight: Redis must be
// consistent, and agree with ledger and labels. Simulated histories and the fault schedule on real servers
// use the same checks.
package promises

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// Facts are the contents of all stores at rest.
type Facts struct {
	InForce  map[string]events.Reply   // by runtime: its assignment in force
	Answered map[Claim]bool            // claims that runtimes were answered with: they end with their last runtime
	Bindings map[string]engine.Binding // by name, as they are in Gardener
	Shoots   []engine.Shoot            // as they are in Gardener
	Records  map[In]account.Record     // from Redis
	Runtimes map[string][]Runtime      // by id, from Redis
	Given    []Block                   // of the assignments in force
	Held     []Block                   // in Redis

	Exceptions
}

// Exceptions are exempt from some checks: what was changed by hand or forgotten, and waits that rule 12 permits.
type Exceptions struct {
	Edited  map[string]bool // bindings that were changed by hand
	Excused map[string]bool // runtimes whose event was deleted by hand, or whose replies retention has deleted
	Waits   map[string]bool // runtimes whose request waits for blocks: they may have an account until its deadline
	Passed  map[string]bool // runtimes that wait beside another runtime of their tenant: they may have more blocks
}

// Runtime is a runtime's record in a pool.
type Runtime struct {
	Pool string
	account.Runtime
}

// In is a binding in a pool: a binding that was moved may have a record in each.
type In struct{ Pool, Binding string }

func (i In) compare(o In) int {
	return cmp.Or(cmp.Compare(i.Pool, o.Pool), cmp.Compare(i.Binding, o.Binding))
}

// Claim is one claim of a binding.
type Claim struct {
	Binding    string
	Generation int64
}

// Report is called for each violation.
type Report func(invariant, format string, args ...any)

// Counts compares the runtimes in Redis with the counts there, and with the ledger and the Shoots (I1, I6).
func (f Facts) Counts(bad Report) {
	on := f.clusters()
	counted := map[In]int{}
	for _, id := range slices.Sorted(maps.Keys(f.Runtimes)) {
		answer, there := f.InForce[id]
		of := assigned(f.Runtimes[id])
		for _, r := range of {
			counted[In{r.Pool, r.Binding}]++
			switch {
			case f.Excused[id] || f.Waits[id]:
			case there && answer.Binding.Name != r.Binding:
				bad("I1 OneBinding", "runtime %s was answered %s, Redis has %s", id, answer.Binding.Name, r.Binding)
			case !there && (r.Origin != account.Adopted || on[id] != r.Binding):
				bad("I6 CountsTrue", "runtime %s is on %s in Redis, the ledger does not say so", id, r.Binding)
			}
		}
		if len(of) > 1 {
			bad("I1 OneBinding", "runtime %s is assigned in %d pools", id, len(of))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(f.InForce)) {
		if len(assigned(f.Runtimes[id])) == 0 && !f.Excused[id] && !f.Waits[id] {
			bad("I6 CountsTrue", "runtime %s is on %s in the ledger, not in Redis", id, f.InForce[id].Binding.Name)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(counted), In.compare) {
		if _, known := f.Records[at]; !known {
			bad("I6 CountsTrue", "binding %s has %d runtimes in pool %s, and no record there", at.Binding, counted[at], at.Pool)
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(f.Records), In.compare) {
		if r := f.Records[at]; r.Count != counted[at] {
			bad("I6 CountsTrue", "binding %s is counted %d in pool %s, and has %d runtimes there", at.Binding, r.Count, at.Pool, counted[at])
		}
	}
}

func assigned(all []Runtime) (of []Runtime) {
	for _, r := range all {
		if r.State == account.RuntimeAssigned {
			of = append(of, r)
		}
	}
	return of
}

// clusters returns the binding of each runtime that has a Shoot.
func (f Facts) clusters() map[string]string {
	on := map[string]string{}
	for _, s := range f.Shoots {
		on[s.RuntimeID] = s.Binding
	}
	return on
}

// Record returns the record of a binding in the pool that its labels name.
func (f Facts) Record(b engine.Binding) account.Record { return f.Records[In{b.Pool().Name(), b.Name}] }

// Labels compares bindings and Shoots in Gardener with Redis and the ledger (I5, I6, I8). A dirty account
// that waits for its cleanup is no violation.
func (f Facts) Labels(bad Report) {
	for _, s := range f.Shoots {
		if r, there := f.InForce[s.RuntimeID]; !f.Excused[s.RuntimeID] && (!there || r.Binding.Name != s.Binding) {
			bad("I6 CountsTrue", "the Shoot of runtime %s is on %s, the ledger does not say so", s.RuntimeID, s.Binding)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Bindings)) {
		if b := f.Bindings[name]; !b.Shared && !f.byHand(b) {
			f.label(b, f.Record(b), bad)
		}
	}
}

// byHand reports whether a binding with runtimes was changed by hand, or one of them is excused. Workers
// report a drift of such a binding, but do not repair it by themselves.
func (f Facts) byHand(b engine.Binding) bool {
	return f.Record(b).Count > 0 && (f.Edited[b.Name] || slices.ContainsFunc(f.on(b.Name), func(id string) bool { return f.Excused[id] }))
}

// on returns the runtimes that Redis has on a binding.
func (f Facts) on(binding string) (ids []string) {
	for id, all := range f.Runtimes {
		if slices.ContainsFunc(assigned(all), func(r Runtime) bool { return r.Binding == binding }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// label checks one dedicated binding.
func (f Facts) label(b engine.Binding, r account.Record, bad Report) {
	free := r.State == "" || r.State == account.Free
	cluster := slices.ContainsFunc(f.Shoots, func(s engine.Shoot) bool { return s.Binding == b.Name })
	switch {
	case b.Dirty:
		if r.State != account.Dirtying {
			bad("I5 NoDirty", "%s is dirty, its record is %+v", b.Name, r)
		}
	case b.Tenant == "":
		drains := r.State == account.Draining && cluster // rule 8: its label was taken off by hand, under a cluster
		if !free && !drains && !f.waits(r, b.Name) {
			bad("I6 CountsTrue", "%s is unclaimed, its record is %+v", b.Name, r)
		}
	case r.Tenant != b.Tenant || free || r.State == account.Dirtying:
		bad("I6 CountsTrue", "%s is labelled %s, its record is %+v", b.Name, b.Tenant, r)
	case r.Confirmed && r.Generation != b.Generation:
		bad("I6 CountsTrue", "%s is labelled with generation %d, its confirmed record has %d", b.Name, b.Generation, r.Generation)
	case r.State == account.Draining && !cluster: // rule 8
		bad("I8 NothingLost", "%s drains for ever: %+v", b.Name, r)
	case r.State != account.Draining && r.Count == 0 && f.Answered[Claim{b.Name, b.Generation}]:
		bad("I8 NothingLost", "%s is idle for ever, and the last cluster of its claim is gone: %+v", b.Name, r)
	}
}

// waits reports whether all runtimes of an unconfirmed binding wait for blocks: the binding is labelled only when
// one of them gets some. Its state is claimed (InUse), not claiming, if it drained and its tenant came back.
func (f Facts) waits(r account.Record, binding string) bool {
	on := f.on(binding)
	return (r.State == account.Claiming || r.State == account.InUse && !r.Confirmed) && len(on) > 0 && !slices.ContainsFunc(on, func(id string) bool { return !f.Waits[id] })
}
