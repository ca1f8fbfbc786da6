package simulation

import (
	"context"
	"slices"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/simulation/servers"
	"github.com/hap-worker/hap-worker/worker/simulation/trace"
)

// The checks in this file compare Redis with answers, with labels and with itself while the history plays.

// counted checks I6 for an assignment: in Redis the runtime is on the binding that the reply names. It passes over
// a pool that is not built, and a runtime that is excused or leaves, since that may be gone already.
func (w *world) counted(r events.Reply) {
	if w.truth.excused[r.RuntimeID] || w.truth.lives[r.RuntimeID].leaves {
		return
	}
	m := w.masters[0]
	if all := slices.Concat(w.masters, w.former); len(all) > 1 {
		at := slices.IndexFunc(all, func(m *servers.Master) bool { return w.inForce(m, r.Decision.Pool) })
		if at < 0 {
			return // no Redis has the pool with the epoch in force: it is being rebuilt
		}
		m = all[at]
	}
	rt, err := m.Counters.RuntimeIn(context.Background(), r.Decision.Pool, r.RuntimeID)
	if err == nil && (rt.State != account.RuntimeAssigned || rt.Binding != r.Binding.Name) {
		w.bad("I6 CountsTrue", "runtime %s is answered with %s, Redis has it %s on %q", r.RuntimeID, r.Binding.Name, rt.State, rt.Binding)
	}
}

// inForce reports whether the record of epochs names the epochs that this Redis has for the places.
func (w *world) inForce(m *servers.Master, places ...string) bool {
	ctx := context.Background()
	found, err := w.ledger.Epochs(ctx)
	w.must(err)
	epochs, err := m.Counters.Epochs(ctx, places...)
	w.must(err)
	for _, place := range places {
		if epochs[place] == "" || epochs[place] != found.Epochs[place] {
			return false
		}
	}
	return true
}

// markedFreed is called when a binding is freed in the Redis in force. Its label must be off by then, and no later
// claim of this pool may have labelled it (rule 9).
func (w *world) markedFreed(pool, binding string) {
	if b := w.truth.labels[binding]; b.Pool().Name() == pool && (b.Tenant != "" || b.Dirty) && !w.truth.edited[binding] {
		w.bad("I3 OneTenant", "%s is free in Redis, its label is %s", binding, trace.Label(b))
	}
}

// consistent checks I6 within one Redis: the count of each binding is its number of runtimes. It runs after every
// call that changes Redis, so it only sums up, in any order, and leaves the report to miscounted, which visits
// the bindings by name.
func (w *world) consistent(m *servers.Master) {
	for _, pool := range w.pools {
		clear(w.tally)
		err := m.Counters.Each(context.Background(), pool.Name(), func(name string, rec account.Record) {
			w.tally[name] += rec.Count
		}, func(_ string, rt account.Runtime) {
			if rt.State == account.RuntimeAssigned {
				w.tally[rt.Binding]--
			}
		})
		if err != nil {
			continue // it is not built
		}
		for _, off := range w.tally {
			if off != 0 {
				w.miscounted(m)
				break
			}
		}
	}
}

// miscounted reports the bindings that have a record whose count differs from their number of runtimes.
func (w *world) miscounted(m *servers.Master) {
	ctx := context.Background()
	for _, pool := range w.pools {
		counted := map[string]int{}
		for rt, err := range m.Counters.Runtimes(ctx, pool.Name()) {
			if err != nil {
				break
			}
			if rt.State == account.RuntimeAssigned {
				counted[rt.Binding]++
			}
		}
		for b, err := range m.Counters.Bindings(ctx, pool.Name()) {
			if err != nil {
				break
			}
			if b.Count != counted[b.Binding] {
				w.bad("I6 CountsTrue", "%s is counted %d and has %d runtimes in %s", b.Binding, b.Count, counted[b.Binding], m.Name)
			}
		}
	}
}

// located checks that the directory names the pool of every assigned runtime: otherwise no deprovision finds
// the runtime (I6). It skips unsealed runtimes, and those whose pool or bucket is not in force.
func (w *world) located(m *servers.Master) {
	ctx := context.Background()
	for _, pool := range w.pools {
		for rt, err := range m.Counters.Runtimes(ctx, pool.Name()) {
			if err != nil {
				break
			}
			if rt.State != account.RuntimeAssigned {
				continue
			}
			if l := w.truth.lives[rt.ID]; l != nil && w.truth.unsealed(l) {
				continue // its answer may have come after its bucket was gathered, and before its pool was
			}
			if !w.inForce(m, pool.Name(), account.BucketOf(rt.ID)) {
				continue // pool and bucket are built at different times, or one of them is not built
			}
			if place, err := m.Counters.Place(ctx, rt.ID); err == nil && place.Pool != pool.Name() {
				w.bad("I6 CountsTrue", "runtime %s is on %s in pool %s, and the directory does not say so", rt.ID, rt.Binding, pool.Name())
			}
		}
	}
}
