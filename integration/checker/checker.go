// Package checker checks a system from outside, after the fact: it reads the streams, Redis and Gardener, and
// reports the invariants of docs/protocol.md that do not hold. Some checks at rest are those of package
// promises, which simulated histories use, too. The package decides nothing. With the worker it shares the
// packages that read the stores, not those that decide.
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
	"github.com/hap-worker/hap-worker/gardener/clusterconfig"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/simulation/promises"
)

// Facts are the contents of all stores, and the observations of the test.
type Facts struct {
	promises.Facts

	Replies   map[string]events.Reply      // by subject
	Dead      map[uint64]bool              // sequences of HAP_EVENTS that have a dead letter
	Published map[string]map[string]string // request id -> reply subject, by runtime id

	// Networks are the network blocks in Redis and in the cluster.
	Networks Networks
	// Unreadable are the sequences of published messages that no worker can decode.
	Unreadable []uint64
	// Watched are the observations of a run, nil if there was no observer.
	Watched *Watched
}

// Sources are the stores that Read reads.
type Sources struct {
	Ledger   *storage.Ledger
	Counters *counters.Store
	Gardener *gardener.Client
	Configs  *clusterconfig.Configs // nil: ClusterConfigs are not read
}

// Read reads the stores. The caller sets Dead, Published, Unreadable and Watched.
func Read(ctx context.Context, s Sources) (Facts, error) {
	f := Facts{Replies: map[string]events.Reply{}, Facts: promises.Facts{
		Bindings: map[string]engine.Binding{}, Records: map[promises.In]account.Record{}, Runtimes: map[string][]promises.Runtime{},
	}}
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
			f.Records[promises.In{Pool: pool, Binding: b.Binding}] = b.Record
		}
		for r, err := range s.Counters.Runtimes(ctx, pool) {
			if err != nil {
				return f, err
			}
			f.Runtimes[r.ID] = append(f.Runtimes[r.ID], promises.Runtime{Pool: pool, Runtime: r.Runtime})
		}
	}
	f.Networks, err = readNetworks(ctx, s)
	return f, err
}

// Terms are the terms on which tenants get accounts.
type Terms struct {
	OneAccount bool            // I4 is checked
	Several    map[string]bool // tenants that are exempt from I4
	Limit      int             // the limit of every account; I2 is checked if it is above 0
}

// Violations lists every violation, sorted.
func (f Facts) Violations(terms Terms) []string {
	var found []string
	bad := func(invariant, format string, args ...any) {
		found = append(found, invariant+": "+fmt.Sprintf(format, args...))
	}
	live := f.live(bad)
	f.answers(bad)
	f.labels(live, bad)
	f.InForce = live
	f.Counts(bad)
	f.limits(terms, bad)
	f.decisions(terms, bad)
	f.overTime(bad)
	f.network(live, bad)
	if terms.OneAccount {
		f.oneAccount(live, terms, bad)
	}
	slices.Sort(found)
	return found
}

type report = promises.Report

// live returns the reply in force of every runtime that has a binding, and checks I1.
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

// answers checks that every published request has a final reply, and every unreadable message a dead letter (I7, I8).
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

// labels checks the labels of the bindings in use (I3, I5).
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

// limits checks that no record of a dedicated binding exceeds the limit (I2).
func (f Facts) limits(terms Terms, bad report) {
	for at, r := range f.Records {
		if terms.Limit > 0 && r.Count > terms.Limit && !f.Bindings[at.Binding].Shared {
			bad("I2 WithinLimit", "binding %s has %d runtimes, the limit is %d", at.Binding, r.Count, terms.Limit)
		}
	}
}

// oneAccount checks that no tenant outside of terms.Several has two dedicated bindings of a pool (I4). It does not count
// a binding whose last runtime has left, although its label names the tenant until it is marked dirty.
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
		r := f.Record(b)
		leaving := r.Tenant == b.Tenant && (r.State == account.Draining || r.State == account.Dirtying)
		if b.Tenant != "" && !b.Shared && !b.Dirty && !leaving {
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
