// Package reconcile updates Redis from the labels that others write on bindings, and marks accounts dirty that
// their last deprovision could not mark.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/dirtying"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Follower updates Redis from Gardener's labels; package counters implements it.
type Follower interface {
	// Observe applies a label that was read to the binding's record (rule 10), and returns the
	// change, if any, and the record.
	Observe(ctx context.Context, pool string, l account.Label) (account.Observation, error)
	// Doubt makes a claim unconfirmed, and reports whether it did. The next assignment then
	// verifies the label first.
	Doubt(ctx context.Context, pool, binding string, generation int64) (bool, error)
	// Pools returns the names of all pools that Redis knows, built or not.
	Pools(ctx context.Context) ([]string, error)
	// Binding returns a binding's record, a free one if there is none.
	Binding(ctx context.Context, pool, binding string) (account.Record, error)
	// Bindings returns the records of a pool.
	Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error]
}

// Reader reads one binding from Gardener, not from the cache.
type Reader interface {
	// Get returns an engine.Error with CodeUnknownBinding if the binding does not exist.
	Get(ctx context.Context, name string) (engine.Binding, error)
}

// Cache has the bindings from the watch; package gardener implements it.
type Cache interface {
	Pools() []engine.Pool
	All() iter.Seq[engine.Binding]
	Cached(name string) (engine.Binding, bool)
	// EachShoot calls f with each Shoot of the API. It calls restart before, and again if it begins anew.
	EachShoot(ctx context.Context, restart func(), f func(engine.Shoot)) error
}

// Marker acts on label changes; package worker implements it.
type Marker interface {
	// WakeTenant has each tenant's first waiting request for a pool tried again, and the other requests of
	// this tenant for it; "" names no tenant.
	WakeTenant(pool, tenant string)
	// SharedPools sets the names of the shared pools. An account on which one of them counts
	// runtimes is not claimed, whatever its labels say.
	SharedPools(names []string)
	// MarkDirty marks an account dirty if no Shoot refers to it (rule 8): package dirtying.
	MarkDirty(ctx context.Context, pool, binding, tenant string, generation int64) (dirtying.Marking, error)
}

// Labels handles changes that no event reports: labels that others write, and accounts that drain until no Shoot
// refers to them. It checks a binding when the watch reports it, and all bindings periodically (a sweep).
type Labels struct {
	Worker   Marker
	Bindings Reader
	Rebuild  account.Rebuilder
	Observer observe.Observer
	// Budget is the time-out for marking one account.
	Budget   time.Duration
	Follower Follower
	Cache    Cache
	// Every is the pause between two sweeps. Defaults to 15 s. Each pause is up to a fifth longer
	// (jitter), so that workers do not sweep at the same time. If a sweep takes long, since there are many bindings,
	// sweeps are left out after it (loop.Pace), unless the sweep failed or found an account to be marked, or a label
	// that the watch reports could not be followed.
	Every time.Duration
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	once    sync.Once
	mu      sync.Mutex
	changed map[place]struct{} // reported by the watch, not checked yet
	signal  chan struct{}
	pace    loop.Pace
	waits   map[string]wait // accounts that the last sweep could not mark; the map is replaced, never changed
}

// place is a binding in the pool where it is, or was.
type place struct {
	binding string
	pool    engine.Pool
}

func (p place) compare(o place) int {
	return cmp.Or(strings.Compare(p.binding, o.binding), strings.Compare(p.pool.Name(), o.pool.Name()))
}

func (s *Labels) init() {
	s.once.Do(func() {
		s.changed, s.signal = map[place]struct{}{}, make(chan struct{}, 1)
		if s.Every == 0 {
			s.Every = 15 * time.Second
		}
		if s.Now == nil {
			s.Now = time.Now
		}
	})
}

// Changed reports a binding that the watch has delivered. It does not block.
func (s *Labels) Changed(b engine.Binding, _ bool) {
	s.init()
	s.mu.Lock()
	s.changed[place{b.Name, b.Pool()}] = struct{}{}
	s.mu.Unlock()
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// Run sweeps and, concurrently, checks the bindings that the watch reports, until ctx ends: a sweep may take minutes to
// mark accounts. A binding whose check fails is left to the next sweep, so that it does not hold up the others.
func (s *Labels) Run(ctx context.Context) {
	s.init()
	failed := func(err error, after time.Duration) {
		if !errors.Is(err, account.ErrNotBuilt) { // otherwise a rebuild was requested
			s.Observer.Retry(ctx, observe.Retry{Type: "sweep", After: after, Err: err})
		}
	}
	var following sync.WaitGroup
	following.Go(func() {
		loop.Run(ctx, loop.Options{Wake: s.signal, Failed: func(err error, _ time.Duration) {
			s.pace.End() // a sweep does what failed
			failed(err, s.Every)
		}}, s.followChanged)
	})
	loop.Run(ctx, loop.Options{
		Start: loop.AtOnce, // labels may have changed while no worker ran
		Every: s.Every, Jitter: 0.2,
		Backoff: loop.Backoff{First: min(time.Second, s.Every), Most: s.Every}, Failed: failed,
	}, s.everything)
	following.Wait()
}

// join joins errors, but leaves out account.ErrNotBuilt beside another error: a rebuild was requested for it, and Run
// reports only other errors.
func join(errs, err error) error {
	switch {
	case err == nil, errs != nil && errors.Is(err, account.ErrNotBuilt):
		return errs
	case errors.Is(errs, account.ErrNotBuilt):
		return err
	default:
		return errors.Join(errs, err)
	}
}

// followChanged checks the bindings that the watch has reported since the last call.
func (s *Labels) followChanged(ctx context.Context) error {
	s.mu.Lock()
	places := s.changed
	s.changed = map[place]struct{}{}
	s.mu.Unlock()
	var errs error
	for _, p := range slices.SortedFunc(maps.Keys(places), place.compare) {
		b, known := s.Cache.Cached(p.binding)
		if known && b.Pool() == p.pool {
			errs = join(errs, s.follow(ctx, b))
		} else {
			errs = join(errs, s.forget(ctx, p.binding, p.pool))
		}
		s.Worker.WakeTenant(p.pool.Name(), b.Tenant) // a request may be waiting for this change
	}
	return errs
}

// follow passes a label from the cache to the script, which decides whether the record changes (rule 10).
// Shared bindings have no claims.
func (s *Labels) follow(ctx context.Context, b engine.Binding) error {
	if b.Pool().Shared {
		return nil
	}
	return s.observe(ctx, b.Pool().Name(), account.LabelOf(b, 0))
}

// forget applies rule 10 to a binding that was deleted or has left its pool: it counts as unclaimed and clean
// there. Otherwise, if a binding of the same name is created again, its record would seem to be a claim that
// has not written its label yet, and the binding would be lost to the pool. forget reads the record before the
// label, so that it ends no later claim, of a binding that was created again in between.
func (s *Labels) forget(ctx context.Context, name string, pool engine.Pool) error {
	if pool.Shared {
		return nil
	}
	rec, err := s.Follower.Binding(ctx, pool.Name(), name)
	if err != nil || rec.State == account.Free {
		return s.notBuilt(err, pool.Name())
	}
	b, err := s.Bindings.Get(ctx, name)
	switch {
	case err == nil && b.Pool() == pool:
		return nil // it exists, and the cache is out of date
	case err != nil && engine.CodeOf(err) != engine.CodeUnknownBinding:
		return err
	}
	return s.observe(ctx, pool.Name(), account.Label{Binding: name, Generation: rec.Generation})
}

func (s *Labels) observe(ctx context.Context, pool string, l account.Label) error {
	seen, err := s.Follower.Observe(ctx, pool, l)
	if err != nil {
		return s.notBuilt(err, pool)
	}
	if seen.Change != "" {
		s.Observer.Followed(ctx, observe.Followed{Binding: l.Binding, Pool: pool, Observation: seen})
		return nil
	}
	if l.After == 0 && seen.Record.AsksFor(l) {
		return s.ask(ctx, pool, l.Binding, seen.Record.Generation)
	}
	return s.doubt(ctx, pool, l, seen.Record)
}

// ask is called if the label in the cache is older than the claim in the record: either the claim has not written
// its label, or the cache is out of date. ask reads the label from Gardener, after the record was read, and passes
// that to the script. It does nothing if the binding is deleted or in another pool.
func (s *Labels) ask(ctx context.Context, pool, binding string, generation int64) error {
	b, err := s.Bindings.Get(ctx, binding)
	switch {
	case engine.CodeOf(err) == engine.CodeUnknownBinding, err == nil && b.Pool().Name() != pool:
		return nil // forget handles it once the cache shows it
	case err != nil:
		return err
	}
	return s.observe(ctx, pool, account.LabelOf(b, generation))
}

// doubt handles an account whose label, as it was read, names another tenant, names none, or is dirty: it has runtimes,
// or the binding was deleted and created again, so that its label is older than the claim. doubt does nothing if the
// claim is unconfirmed or about to be marked dirty, or if Gardener now shows the tenant's clean label in this
// pool. Otherwise the claim becomes unconfirmed, and the runtimes stay: the tenant's next request verifies the
// label first, and gets another account if the label is not the tenant's. A claim without runtimes may then follow
// its label.
func (s *Labels) doubt(ctx context.Context, pool string, l account.Label, rec account.Record) error {
	marking := rec.Count == 0 && rec.State == account.Dirtying
	if !rec.Confirmed || rec.Tenant == "" || marking || (l.Tenant == rec.Tenant && !l.Dirty) {
		return nil
	}
	// The cached label may be older than the claim. Read it from the API, after the record.
	b, err := s.Bindings.Get(ctx, l.Binding)
	switch {
	case engine.CodeOf(err) == engine.CodeUnknownBinding:
	case err != nil:
		return err
	case b.Tenant == rec.Tenant && !b.Dirty && b.Pool().Name() == pool:
		return nil
	}
	doubted, err := s.Follower.Doubt(ctx, pool, l.Binding, rec.Generation)
	if doubted {
		s.Observer.Followed(ctx, observe.Followed{Binding: l.Binding, Pool: pool, Observation: account.Observation{
			Change: account.BecameDoubted, Before: rec, Record: rec,
		}})
		if rec.Count == 0 {
			return s.ask(ctx, pool, l.Binding, rec.Generation)
		}
	}
	return s.notBuilt(err, pool)
}

// notBuilt returns err. If it is account.ErrNotBuilt, notBuilt first requests a rebuild.
func (s *Labels) notBuilt(err error, pool string) error {
	return account.AskForRebuild(err, s.Rebuild, pool)
}
