// Package checker looks at a system from outside, after the fact: it reads the
// streams, Redis and Gardener, and says which of the invariants of
// docs/protocol.md do not hold. It shares no code with the worker beyond the
// wire's types and the keys' layout, and decides nothing.
package checker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
)

// Facts are what was read.
type Facts struct {
	Replies   map[string]events.Reply      // by subject
	Bindings  map[string]engine.Binding    // by name, live
	Records   map[string]account.Record    // by binding, from Redis
	Runtimes  map[string][]PooledRuntime   // by id, from Redis
	Shoots    []engine.Shoot               // live
	Dead      map[uint64]bool              // sequences of HAP_EVENTS that have a dead letter
	Published map[string]map[string]string // request id -> reply subject, by runtime id

	// Networks are the network blocks that Redis and the cluster have.
	Networks Networks
	// Unreadable are the sequences of published messages that no worker can answer.
	Unreadable []uint64
	// Watched has what an observer saw happen; nil where none looked.
	Watched *Watched
}

// PooledRuntime is a runtime's record in a pool.
type PooledRuntime struct {
	Pool string
	account.Runtime
}

// Sources are where the facts are read from.
type Sources struct {
	Ledger   *events.Ledger
	Counters *counters.Store
	Gardener *gardener.Client
	Configs  *gardener.ClusterConfigs // nil where there are none to read
}

// Read reads what is stored. Dead, Published, Unreadable and Watched are left to
// the caller.
func Read(ctx context.Context, s Sources) (Facts, error) {
	f := Facts{
		Replies: map[string]events.Reply{}, Bindings: map[string]engine.Binding{},
		Records: map[string]account.Record{}, Runtimes: map[string][]PooledRuntime{},
	}
	err := s.Ledger.Each(ctx, func(stored events.Stored) error {
		if stored.Reply.Status != events.StatusSealed || stored.Reply.RuntimeID != "" { // the record of epochs is no reply
			f.Replies[stored.Subject] = stored.Reply
		}
		return nil
	})
	if err != nil {
		return f, err
	}
	err = s.Gardener.List(ctx, func(b engine.Binding) error {
		f.Bindings[b.Name] = b
		return nil
	})
	if err != nil {
		return f, err
	}
	err = s.Gardener.Shoots(ctx, func(shoot engine.Shoot) error {
		f.Shoots = append(f.Shoots, shoot)
		return nil
	})
	if err != nil {
		return f, err
	}
	pools, err := s.Counters.Pools(ctx)
	if err != nil {
		return f, err
	}
	for _, pool := range pools {
		for b, err := range s.Counters.Bindings(ctx, pool) {
			if err != nil {
				return f, err
			}
			f.Records[b.Binding] = b.Record
		}
		for r, err := range s.Counters.Runtimes(ctx, pool) {
			if err != nil {
				return f, err
			}
			f.Runtimes[r.ID] = append(f.Runtimes[r.ID], PooledRuntime{pool, r.Runtime})
		}
	}
	f.Networks, err = readNetworks(ctx, s)
	return f, err
}

// Terms say what a tenant may have in a pool.
type Terms struct {
	OneAccount bool            // I4 is checked
	Several    map[string]bool // tenants that I4 does not hold for
	Limit      int             // the limit of every account; I2 is checked where it is above 0
}

// Violations lists every invariant that does not hold, by name.
func (f Facts) Violations(terms Terms) []string {
	var found []string
	bad := func(invariant, format string, args ...any) {
		found = append(found, invariant+": "+fmt.Sprintf(format, args...))
	}
	live := f.live(bad)
	f.answers(bad)
	f.labels(live, bad)
	f.counts(live, terms, bad)
	f.decisions(terms, bad)
	f.overTime(bad)
	f.network(live, bad)
	if terms.OneAccount {
		f.oneAccount(live, terms, bad)
	}
	slices.Sort(found)
	return found
}

type report func(invariant, format string, args ...any)

// live returns the reply in force of every runtime that has a binding: I1.
func (f Facts) live(bad report) map[string]events.Reply {
	byRuntime := map[string][]events.Reply{}
	for _, r := range f.Replies {
		if r.RuntimeID != "" && r.Decision != nil && r.Decision.Sequence > 0 {
			byRuntime[r.RuntimeID] = append(byRuntime[r.RuntimeID], r)
		}
	}
	live := map[string]events.Reply{}
	for id, replies := range byRuntime {
		slices.SortFunc(replies, func(a, b events.Reply) int { return cmp.Compare(a.Decision.Sequence, b.Decision.Sequence) })
		var bindings []string
		for _, r := range replies {
			if r.Status == events.StatusAssigned && !slices.Contains(bindings, r.Binding.Name) {
				bindings = append(bindings, r.Binding.Name)
			}
		}
		if len(bindings) > 1 {
			bad("I1 OneBinding", "runtime %s was answered with %v", id, bindings)
		}
		if last := replies[len(replies)-1]; last.Status == events.StatusAssigned {
			live[id] = last
		}
	}
	return live
}

// answers checks that every published request has its one final answer: I7, I8.
func (f Facts) answers(bad report) {
	for runtime, requests := range f.Published {
		for request, subject := range requests {
			r, ok := f.Replies[subject]
			switch {
			case !ok:
				bad("I8 NothingLost", "request %s of runtime %s has no reply", request, runtime)
			case !r.Final():
				bad("I7 OneAnswer", "request %s of runtime %s is left as %s", request, runtime, r.Status)
			}
		}
	}
	for _, sequence := range f.Unreadable {
		if !f.Dead[sequence] {
			bad("I8 NothingLost", "the unreadable message %d has no dead letter", sequence)
		}
	}
}

// labels checks what Gardener says of the bindings in use: I3, I5.
func (f Facts) labels(live map[string]events.Reply, bad report) {
	tenants := map[string]map[string]bool{}
	for id, r := range live {
		b, ok := f.Bindings[r.Binding.Name]
		if !ok {
			bad("I3 OneTenant", "runtime %s is on binding %s, which Gardener does not have", id, r.Binding.Name)
			continue
		}
		if b.Dirty {
			bad("I5 NoDirty", "runtime %s is on binding %s, which is dirty", id, b.Name)
		}
		if b.Internal {
			bad("I5 NoDirty", "runtime %s is on binding %s, which is internal", id, b.Name)
		}
		if b.Shared {
			continue
		}
		if tenants[b.Name] == nil {
			tenants[b.Name] = map[string]bool{}
		}
		tenants[b.Name][r.GlobalAccountID] = true
		if b.Tenant != r.GlobalAccountID {
			bad("I3 OneTenant", "runtime %s of %s is on binding %s, whose label names %q", id, r.GlobalAccountID, b.Name, b.Tenant)
		}
	}
	for name, of := range tenants {
		if len(of) > 1 {
			bad("I3 OneTenant", "binding %s serves %v", name, slices.Sorted(maps.Keys(of)))
		}
	}
}

// counts compares Redis with its own records and with the ledger: I1, I2, I6.
func (f Facts) counts(live map[string]events.Reply, terms Terms, bad report) {
	counted := f.runtimes(live, bad)
	for name := range counted {
		if _, known := f.Records[name]; !known {
			bad("I6 CountsTrue", "binding %s has %d runtimes in Redis and no record there", name, counted[name])
		}
	}
	for name, r := range f.Records {
		if r.Count != counted[name] {
			bad("I6 CountsTrue", "binding %s is counted %d in Redis and has %d runtimes there", name, r.Count, counted[name])
		}
		if terms.Limit > 0 && r.Count > terms.Limit && !f.Bindings[name].Shared {
			bad("I2 WithinLimit", "binding %s has %d runtimes, the limit is %d", name, r.Count, terms.Limit)
		}
	}
}

// runtimes compares the runtimes of Redis with the ledger, and returns how many each
// binding has.
func (f Facts) runtimes(live map[string]events.Reply, bad report) map[string]int {
	counted := map[string]int{}
	clusters := map[string]string{} // binding, by runtime
	for _, s := range f.Shoots {
		clusters[s.RuntimeID] = s.Binding
	}
	for id, places := range f.Runtimes {
		assigned := 0
		for _, r := range places {
			if r.State != account.RuntimeAssigned {
				continue
			}
			assigned++
			counted[r.Binding]++
			if answer, ok := live[id]; ok && answer.Binding.Name != r.Binding {
				bad("I1 OneBinding", "runtime %s was answered %s, Redis has %s", id, answer.Binding.Name, r.Binding)
			}
			if _, ok := live[id]; !ok && (r.Origin != account.Adopted || clusters[id] != r.Binding) {
				bad("I6 CountsTrue", "runtime %s is on %s in Redis, the ledger does not say so", id, r.Binding)
			}
		}
		if assigned > 1 {
			bad("I1 OneBinding", "runtime %s is assigned in %d pools", id, assigned)
		}
	}
	for id, r := range live {
		if !slices.ContainsFunc(f.Runtimes[id], func(r PooledRuntime) bool { return r.State == account.RuntimeAssigned }) {
			bad("I6 CountsTrue", "runtime %s is on %s in the ledger, not in Redis", id, r.Binding.Name)
		}
	}
	return counted
}

// oneAccount checks that no tenant has two dedicated bindings of a pool: I4.
func (f Facts) oneAccount(live map[string]events.Reply, terms Terms, bad report) {
	type key struct{ tenant, pool string }
	has := map[key]map[string]bool{}
	for _, r := range live {
		if r.Binding.Shared {
			continue
		}
		k := key{r.GlobalAccountID, r.Decision.Pool}
		if has[k] == nil {
			has[k] = map[string]bool{}
		}
		has[k][r.Binding.Name] = true
	}
	for _, b := range f.Bindings {
		if b.Tenant != "" && !b.Shared && !b.Dirty {
			k := key{b.Tenant, b.Pool().Name()}
			if has[k] == nil {
				has[k] = map[string]bool{}
			}
			has[k][b.Name] = true
		}
	}
	for k, bindings := range has {
		if len(bindings) > 1 && !terms.Several[k.tenant] {
			bad("I4 OneAccount", "tenant %s has %v of pool %s", k.tenant, slices.Sorted(maps.Keys(bindings)), k.pool)
		}
	}
}
