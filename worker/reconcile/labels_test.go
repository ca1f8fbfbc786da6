package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// The script is called only for labels that differ from the record.
func TestContradicts(t *testing.T) {
	t.Parallel()
	unclaimed, ours, others := engine.Binding{}, engine.Binding{Tenant: "ga"}, engine.Binding{Tenant: "gb"}
	dirty, nobodysDirty := engine.Binding{Tenant: "ga", Dirty: true}, engine.Binding{Dirty: true}
	for _, c := range []struct {
		name   string
		record account.Record
		// for each label above, whether the script is called
		unclaimed, ours, others, dirty, nobodysDirty bool
	}{
		{"unknown", account.Record{}, false, true, true, true, true},
		{"free, with runtimes that no label accounts for", account.Record{State: account.Free, Count: 1}, false, true, true, true, true},
		{"claiming", account.Record{State: account.Claiming, Tenant: "ga"}, false, false, false, false, false},
		{"claimed", account.Record{State: account.InUse, Tenant: "ga"}, true, false, true, true, true},
		{"draining", account.Record{State: account.Draining, Tenant: "ga"}, true, false, true, true, true},
		{"dirtying", account.Record{State: account.Dirtying, Tenant: "ga"}, true, true, true, false, true},
	} {
		for _, label := range []struct {
			name string
			b    engine.Binding
			want bool
		}{
			{"unclaimed", unclaimed, c.unclaimed}, {"the tenant's", ours, c.ours}, {"another's", others, c.others},
			{"dirty", dirty, c.dirty}, {"dirty and unclaimed", nobodysDirty, c.nobodysDirty},
		} {
			if got := contradicts(label.b, c.record); got != label.want {
				t.Errorf("%s, %s: %t, want %t", c.name, label.name, got, label.want)
			}
		}
	}
}

// followerFake records the calls of Doubt.
type followerFake struct {
	Follower
	doubted []string
	err     error
}

func (f *followerFake) Doubt(_ context.Context, _, binding string, generation int64) (bool, error) {
	if f.err != nil || generation != 3 {
		return false, f.err
	}
	f.doubted = append(f.doubted, binding)
	return true, nil
}

// An account with clusters is doubted if the API, and not only the cache, shows that its tenant has lost it.
func TestDoubt(t *testing.T) {
	t.Parallel()
	used := account.Record{State: account.InUse, Tenant: "ga", Generation: 3, Confirmed: true, Count: 2}
	with := func(edit func(*account.Record)) account.Record {
		rec := used
		edit(&rec)
		return rec
	}
	ours := engine.Binding{Name: "a", HyperscalerType: "aws", Tenant: "ga", Generation: 3}
	labelled := func(edit func(*engine.Binding)) *engine.Binding {
		b := ours
		edit(&b)
		return &b
	}
	unclaimed := account.Label{Binding: "a"}
	for _, c := range []struct {
		name    string
		record  account.Record
		cached  account.Label
		live    *engine.Binding // nil is not there
		down    error           // of Gardener
		lost    error           // of Redis
		reads   int
		doubted bool
		wanted  rebuilds
	}{
		{name: "the cache agrees", record: used, cached: account.Label{Binding: "a", Tenant: "ga"}},
		{name: "not confirmed anyway", record: with(func(r *account.Record) { r.Confirmed = false }), cached: unclaimed},
		{name: "about to be marked dirty", record: with(func(r *account.Record) { r.Count, r.State = 0, account.Dirtying }), cached: unclaimed},
		{name: "shared", record: with(func(r *account.Record) { r.Tenant = "" }), cached: unclaimed},
		{name: "the cache is behind the claim", record: used, cached: unclaimed, live: &ours, reads: 1},
		{name: "the cache is behind a mark that was taken off", record: used, cached: account.Label{Binding: "a", Tenant: "ga", Dirty: true}, live: &ours, reads: 1},
		{name: "taken off", record: used, cached: unclaimed, live: labelled(func(b *engine.Binding) { b.Tenant = "" }), reads: 1, doubted: true},
		{name: "given to another", record: used, cached: account.Label{Binding: "a", Tenant: "gb"}, live: labelled(func(b *engine.Binding) { b.Tenant = "gb" }), reads: 1, doubted: true},
		{name: "marked dirty", record: used, cached: account.Label{Binding: "a", Tenant: "ga", Dirty: true}, live: labelled(func(b *engine.Binding) { b.Dirty = true }), reads: 1, doubted: true},
		{name: "moved to another pool", record: used, cached: unclaimed, live: labelled(func(b *engine.Binding) { b.EUAccess = true }), reads: 1, doubted: true},
		{name: "deleted", record: used, cached: unclaimed, reads: 1, doubted: true},
		{name: "Gardener is not there", record: used, cached: unclaimed, live: &ours, down: engine.ErrUnavailable, reads: 1},
		{name: "Redis is not built", record: used, cached: unclaimed, lost: account.ErrNotBuilt, reads: 1, wanted: rebuilds{"aws"}},
		{name: "another claim by now", record: with(func(r *account.Record) { r.Generation = 2 }), cached: unclaimed, reads: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source := &sourceFake{live: c.live, down: c.down}
			var wanted rebuilds
			told := 0
			follower := &followerFake{err: c.lost}
			s := Labels{
				Follower: follower, Bindings: source, Rebuild: &wanted,
				Observer: observe.Observer{OnFollowed: func(_ context.Context, i observe.Followed) {
					if i.Binding == "a" && i.Pool == "aws" && i.Observation.Change == account.BecameDoubted {
						told++
					}
				}},
			}
			err := s.doubt(t.Context(), "aws", c.cached, c.record)
			if want := errors.Join(c.down, c.lost); (err == nil) != (want == nil) {
				t.Errorf("it ends with %v, want %v", err, want)
			}
			if got := len(follower.doubted) == 1; got != c.doubted || (told == 1) != c.doubted {
				t.Errorf("doubted is %v and told %d times, want %t", follower.doubted, told, c.doubted)
			}
			if source.reads != c.reads || !slices.Equal(wanted, c.wanted) {
				t.Errorf("%d reads, rebuilds of %v; want %d and %v", source.reads, wanted, c.reads, c.wanted)
			}
		})
	}
}

// A binding is deleted and created again. Its claim was confirmed and has no runtimes: an idle one ends, and one that
// drains has its label checked before the next request is answered with it.
func TestConfirmedClaimOfABindingThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state account.State
		live  engine.Binding
		reads int
		want  account.Record
	}{
		{state: account.InUse, reads: 2, want: account.Record{State: account.Free}},
		{state: account.InUse, live: engine.Binding{Tenant: "gb"}, reads: 2, want: account.Record{State: account.InUse, Tenant: "gb", Generation: 1}},
		{state: account.InUse, live: engine.Binding{Dirty: true}, reads: 2, want: account.Record{State: account.Dirtying, Tenant: "ga"}},
		{state: account.InUse, live: engine.Binding{Tenant: "ga", Generation: 2}, reads: 1, want: account.Record{State: account.InUse, Tenant: "ga", Generation: 2, Confirmed: true}},
		{state: account.Draining, reads: 2, want: account.Record{State: account.Draining, Tenant: "ga", Generation: 2}},
		{state: account.Dirtying, want: account.Record{State: account.Dirtying, Tenant: "ga", Generation: 2, Confirmed: true}},
	} {
		c.live.Name, c.live.HyperscalerType = "a", "aws"
		t.Run(fmt.Sprint(c.state, " ", c.live.Tenant, " ", c.live.Dirty), func(t *testing.T) {
			t.Parallel()
			counters, source := memory.NewCounters(), &sourceFake{live: &c.live}
			_, begun := counters.BeginRebuild(t.Context(), "aws", "e", time.Time{}, 0)
			_, built := counters.Install(t.Context(), "aws", "e", account.Snapshot{Bindings: map[string]account.Record{
				"a": {State: c.state, Tenant: "ga", Generation: 2, Confirmed: true},
			}})
			s := Labels{Follower: counters, Bindings: source, Rebuild: &rebuilds{}}
			err := s.follow(t.Context(), engine.Binding{Name: "a", HyperscalerType: "aws"})
			if err := errors.Join(begun, built, err); err != nil {
				t.Fatal(err)
			}
			if got, err := counters.Binding(t.Context(), "aws", "a"); err != nil || got != c.want || source.reads != c.reads {
				t.Errorf("%+v after %d reads, %v; want %+v after %d", got, source.reads, err, c.want, c.reads)
			}
		})
	}
}

// A label older than the record's claim is followed only if the API still shows it. If only the cache shows
// it, following it would free an existing claim, and adopt it as an idle one (I8).
func TestOlderLabelIsAskedFor(t *testing.T) {
	t.Parallel()
	rebuilt := account.Record{State: account.Draining, Tenant: "ga", Generation: 2}
	dirty := engine.Binding{Name: "a", HyperscalerType: "aws", Tenant: "ga", Dirty: true, Generation: 1}
	moved := dirty
	moved.EUAccess = true
	for _, c := range []struct {
		name   string
		cached engine.Binding
		live   *engine.Binding // nil is not there
		down   error           // of Gardener
		reads  int
		want   account.Record
	}{
		{name: "the cache lags", cached: dirty, live: &engine.Binding{Name: "a", HyperscalerType: "aws", Tenant: "ga", Generation: 2}, reads: 1, want: rebuilt},
		{name: "it is so", cached: dirty, live: &dirty, reads: 1, want: account.Record{State: account.Dirtying, Tenant: "ga", Generation: 1}},
		{name: "of this claim", cached: engine.Binding{Name: "a", HyperscalerType: "aws", Tenant: "ga", Dirty: true, Generation: 2}, want: account.Record{State: account.Dirtying, Tenant: "ga", Generation: 2}},
		{name: "it says nothing new", cached: engine.Binding{Name: "a", HyperscalerType: "aws", Tenant: "ga", Generation: 1}, want: rebuilt},
		{name: "moved to another pool", cached: dirty, live: &moved, reads: 1, want: rebuilt},
		{name: "deleted", cached: dirty, reads: 1, want: rebuilt},
		{name: "Gardener is not there", cached: dirty, live: &dirty, down: engine.ErrUnavailable, reads: 1, want: rebuilt},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			counters, source := memory.NewCounters(), &sourceFake{live: c.live, down: c.down}
			_, begun := counters.BeginRebuild(t.Context(), "aws", "e", time.Time{}, 0)
			_, built := counters.Install(t.Context(), "aws", "e", account.Snapshot{Bindings: map[string]account.Record{"a": rebuilt}})
			if err := errors.Join(begun, built); err != nil {
				t.Fatal(err)
			}
			s := Labels{Follower: counters, Bindings: source, Rebuild: &rebuilds{}}
			if err := s.follow(t.Context(), c.cached); !errors.Is(err, c.down) {
				t.Errorf("it ends with %v, want %v", err, c.down)
			}
			for got, err := range counters.Bindings(t.Context(), "aws") {
				if err != nil || got.Record != c.want || source.reads != c.reads {
					t.Errorf("%+v after %d reads, %v; want %+v after %d", got.Record, source.reads, err, c.want, c.reads)
				}
			}
		})
	}
}

// A binding that is deleted is free in Redis. If it is made again and claimed in the same moment, that claim stays.
func TestForgetOfADeletedBinding(t *testing.T) {
	t.Parallel()
	old := account.Record{State: account.Draining, Tenant: "ga", Generation: 2}
	again := account.Record{State: account.Draining, Tenant: "gb", Generation: 3}
	idle := account.Record{State: account.InUse, Tenant: "gb", Generation: 3}
	for _, c := range []struct {
		name             string
		had, since, want account.Record
	}{
		{"drains", old, old, account.Record{State: account.Free}},
		{"idle", idle, idle, account.Record{State: account.Free}},
		{"made again, claimed, and left", old, again, again},
		{"made again and claimed", old, idle, idle},
		{"unknown", account.Record{State: account.Free}, again, again},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			counters := memory.NewCounters()
			install := func(token string, rec account.Record) {
				_, discarded := counters.Discard(t.Context(), "aws")
				_, begun := counters.BeginRebuild(t.Context(), "aws", token, time.Time{}, 0)
				_, built := counters.Install(t.Context(), "aws", token, account.Snapshot{Bindings: map[string]account.Record{"a": rec}})
				if err := errors.Join(discarded, begun, built); err != nil {
					t.Fatal(err)
				}
			}
			install("e1", c.had)
			s := Labels{Follower: counters, Rebuild: &rebuilds{}, Bindings: &sourceFake{before: func() { install("e2", c.since) }}}
			if c.had.State == account.Free {
				install("e2", c.since)
				s.Follower = freed{counters}
			}
			if err := s.forget(t.Context(), "a", engine.Pool{HyperscalerType: "aws"}); err != nil {
				t.Fatal(err)
			}
			if got, err := counters.Binding(t.Context(), "aws", "a"); err != nil || got != c.want {
				t.Errorf("it is %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// freed has read the record before the binding was claimed.
type freed struct{ Follower }

func (freed) Binding(context.Context, string, string) (account.Record, error) {
	return account.Record{State: account.Free}, nil
}

// sourceFake is one binding in the API.
type sourceFake struct {
	live   *engine.Binding // nil is not there
	down   error
	before func() // called before each read; may be nil
	reads  int
}

func (s *sourceFake) Get(context.Context, string) (engine.Binding, error) {
	if s.before != nil {
		s.before()
	}
	s.reads++
	switch {
	case s.down != nil:
		return engine.Binding{}, s.down
	case s.live == nil:
		return engine.Binding{}, &engine.Error{Code: engine.CodeUnknownBinding, Err: errors.New("not found")}
	default:
		return *s.live, nil
	}
}

// rebuilds records the pools for which a rebuild was requested.
type rebuilds []string

func (r *rebuilds) Wanted(pool string) { *r = append(*r, pool) }
