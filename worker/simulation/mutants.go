package simulation

// This file implements the mutants: rules of docs/protocol.md that are switched off. Package campaign lists
// them.

import (
	"context"
	"slices"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/rebuild"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
	"github.com/hap-worker/hap-worker/worker/simulation/servers"
)

// asked returns an assign request as Redis gets it: unchanged, unless a mutant changes it.
func (w *world) asked(r account.Request) account.Request {
	if w.off("epoch") {
		r.Epoch = ""
	}
	if w.off("after") { // without rule 16: each pool numbers its decisions independently
		r.After = 0
	}
	if w.off("limit") {
		r.Terms.Limit = 0
	}
	if w.off("terms") {
		r.Terms = account.Terms{Several: true, Limit: 1, Strategy: account.RoundRobin}
	}
	return r
}

// assigned returns a function that takes the decision of Redis on a request, and returns the one that the process
// gets: the same, unless a mutant changes it. The function also records the limit under which a runtime was
// counted.
func (w *world) assigned(_ string, r account.Request) func(account.Decision, error) (account.Decision, error) {
	return func(d account.Decision, err error) (account.Decision, error) {
		if d.Outcome == account.Assigned && !d.Repeated {
			limit := 1 << 20
			if r.Terms.Several && r.Terms.Limit > 0 {
				limit = r.Terms.Limit
			}
			key := gain(r.Runtime, d.Binding, d.Sequence)
			w.truth.gained[key] = max(w.truth.gained[key], limit)
		}
		if w.off("answer") && d.Outcome == account.Assigned { // without rule 4: the request is answered before the label is written
			d.Confirmed = true
		}
		return d, err
	}
}

// snapshot returns the snapshot that a rebuild installs: s, unless a mutant changes it.
func (w *world) snapshot(s account.Snapshot) account.Snapshot {
	if w.off("unconfirmed") { // without rule 13 (d): each claim counts as confirmed after a rebuild
		for name, rec := range s.Bindings {
			rec.Confirmed = true
			s.Bindings[name] = rec
		}
	}
	return s
}

// token returns the token with which a rebuild installs a place. The mutant "token" first lets this token take the
// place over.
func (w *world) token(ctx context.Context, c *memory.Counters, place, token string) string {
	if w.off("token") { // without rule 13 (e): the last rebuild wins
		_, _ = c.Discard(ctx, place)
		_, _ = c.BeginRebuild(ctx, place, token, w.processes[0].now(), 0)
	}
	return token
}

// lost makes a Redis server lose one place. With the mutant "key", the place then looks new and empty, if it was
// built.
func (w *world) lost(m *servers.Master, n int) {
	ctx, places := context.Background(), slices.Clone(plans.Directories)
	for _, pool := range w.pools {
		places = append(places, pool.Name())
	}
	place := places[n%len(places)]
	epochs, err := m.Counters.Epochs(ctx, place)
	w.must(err)
	_, err = m.Counters.Discard(ctx, place)
	w.must(err)
	if !w.off("key") || epochs[place] == "" {
		return
	}
	// Without rule 1, a lost place looks like a new, empty one.
	_, err = m.Counters.BeginRebuild(ctx, place, epochs[place], w.processes[0].now(), 0)
	w.must(err)
	if account.IsBucket(place) {
		_, err = m.Counters.InstallBucket(ctx, place, epochs[place], account.Directory{})
	} else {
		_, err = m.Counters.Install(ctx, place, epochs[place], account.Snapshot{})
	}
	w.must(err)
}

// sealed returns the ledger as a rebuild reads it.
func (w *world) sealed(l *storage.Ledger) rebuild.Ledger {
	if w.off("highest") { // without rule 13 (d): the newest reply counts, not the one with the highest sequence
		return servers.Newest{Ledger: l}
	}
	return l
}

// looksAway is the rebuilder as a sweep sees it. The mutant "looks" drops its requests to check all epochs.
type looksAway struct{ asker }

func (l looksAway) Wanted(pool string) {
	if pool != "" || !l.p.world.off("looks") { // without rule 15: the epochs of idle pools are not checked
		l.asker.Wanted(pool)
	}
}
