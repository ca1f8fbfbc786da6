// Package reconcile holds Redis against what is true outside of it: Labels follows the
// labels that others write, Audit compares Redis with ledger, labels and Shoots and
// repairs what is safe, and Auditor does so from time to time.
package reconcile

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/dirtying"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Follower lets Redis follow what Gardener's labels say: package counters.
type Follower interface {
	// Observe is rule 10: what a label that was read makes of the binding's record.
	Observe(ctx context.Context, pool string, l account.Label) (account.Observation, error)
	// Doubt makes a claim unconfirmed, so that its label is looked at before it is
	// given out again.
	Doubt(ctx context.Context, pool, binding string, generation int64) (bool, error)
	// Pools returns the names of all pools that Redis knows, built or not.
	Pools(ctx context.Context) ([]string, error)
	// Bindings returns the records of a pool.
	Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error]
}

// Cache is the watch's view of Gardener's bindings.
type Cache interface {
	Pools() []engine.Pool
	All() iter.Seq[engine.Binding]
	Cached(name string) (engine.Binding, bool)
	// Shoots returns all Shoots, live.
	Shoots(ctx context.Context, f func(engine.Shoot) error) error
}

// Marker is the worker that acts on what the labels show: package worker.
type Marker interface {
	// WakeTenant looks at the requests that wait for a pool, and at the tenant's among
	// them; "" is none.
	WakeTenant(pool, tenant string)
	// SharedPools is told which shared pools there are: none of their accounts is claimed
	// while it has runtimes, whatever its labels say.
	SharedPools(names []string)
	// MarkDirty marks an account that no Shoot refers to dirty, rule 8: package dirtying.
	MarkDirty(ctx context.Context, pool, binding, tenant string, generation int64) (dirtying.Marking, error)
}

// Asker asks for a rebuild of what Redis has lost, of pool among it, "" for none in particular: package rebuild.
type Asker interface {
	Wanted(pool string)
}

// Labels keeps an eye on what no event brings: labels that others write, and
// accounts that drain while a Shoot still refers to them. It looks at a binding
// when the watch tells of it, and at all of them every now and then.
type Labels struct {
	Worker   Marker
	Bindings Reader
	Rebuild  Asker
	Observer observe.Observer
	// Budget is how long one account may take to be marked.
	Budget   time.Duration
	Follower Follower
	Cache    Cache
	// Every is the time between two looks at everything. Defaults to 15 s; each is
	// put off by up to a fifth, so that workers do not look at once.
	Every time.Duration
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	once    sync.Once
	mu      sync.Mutex
	changed map[place]struct{} // what the watch told of
	signal  chan struct{}
	waits   map[string]wait // the accounts that the last sweep could not mark; none of them changes
}

// place is a binding where it is, or was.
type place struct {
	binding string
	pool    engine.Pool
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

// Changed is told of a binding that the watch brought. It does not wait.
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

// Run sweeps until ctx ends.
func (s *Labels) Run(ctx context.Context) {
	s.init()
	loop.Run(ctx, loop.Options{
		Start: loop.AtOnce, // no worker may have watched until now
		Every: s.Every, Jitter: 0.2, Wake: s.signal, OnWake: s.followChanged,
		Backoff: loop.Backoff{First: min(time.Second, s.Every), Most: s.Every},
		Failed: func(err error, after time.Duration) {
			if !errors.Is(err, account.ErrNotBuilt) { // else a rebuild is on its way
				s.Observer.Retry(ctx, observe.Retry{Type: "sweep", After: after, Err: err})
			}
		},
	}, s.everything)
}

// followChanged looks at what the watch told of since.
func (s *Labels) followChanged(ctx context.Context) error {
	s.mu.Lock()
	places := s.changed
	s.changed = map[place]struct{}{}
	s.mu.Unlock()
	var errs error
	for p := range places {
		b, known := s.Cache.Cached(p.binding)
		if known && b.Pool() == p.pool {
			errs = errors.Join(errs, s.follow(ctx, b))
		} else {
			errs = errors.Join(errs, s.forget(ctx, p.binding, p.pool))
		}
		s.Worker.WakeTenant(p.pool.Name(), b.Tenant) // what changed may be what a request waits for
	}
	return errs
}

// follow is rule 10: the label was read, the script looks whether it still says
// something new. Shared bindings have no claim to follow.
func (s *Labels) follow(ctx context.Context, b engine.Binding) error {
	if b.Pool().Shared {
		return nil
	}
	return s.observe(ctx, b.Pool().Name(), label(b, 0))
}

// label has the labels of a binding, read after the record of a generation, or from a cache.
func label(b engine.Binding, after int64) account.Label {
	return account.Label{Binding: b.Name, Tenant: b.Tenant, Dirty: b.Dirty, Generation: b.Generation, After: after}
}

// aboveAll is a generation that no claim reaches.
const aboveAll = 1 << 52

// forget is rule 10 for a binding that left its pool or is no more: no claim has
// a label there. Without it, one that is made anew under the old name would be
// taken for a claim that has not written its label yet, and be lost to the pool.
func (s *Labels) forget(ctx context.Context, name string, pool engine.Pool) error {
	if pool.Shared {
		return nil
	}
	b, err := s.Bindings.Get(ctx, name)
	switch {
	case err == nil && b.Pool() == pool:
		return nil // it is there, the cache is behind
	case err != nil && engine.CodeOf(err) != engine.CodeUnknownBinding:
		return err
	}
	return s.observe(ctx, pool.Name(), account.Label{Binding: name, Generation: aboveAll})
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

// ask follows what Gardener shows after the record was read: what the cache shows is older than
// the record's claim, which may have written no label, or the cache lags.
func (s *Labels) ask(ctx context.Context, pool, binding string, generation int64) error {
	b, err := s.Bindings.Get(ctx, binding)
	switch {
	case engine.CodeOf(err) == engine.CodeUnknownBinding, err == nil && b.Pool().Name() != pool:
		return nil // forget sees to it once the cache shows it
	case err != nil:
		return err
	}
	return s.observe(ctx, pool, label(b, generation))
}

// doubt looks at an account that seems to have been taken away from under its
// runtimes. They stay; its next request looks at its label first, and is
// given another one where the label is not the tenant's.
func (s *Labels) doubt(ctx context.Context, pool string, l account.Label, rec account.Record) error {
	if !rec.Confirmed || rec.Count == 0 || rec.Tenant == "" || (l.Tenant == rec.Tenant && !l.Dirty) {
		return nil
	}
	// The cache may be behind the claim; what is read after the record is not.
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
	}
	return s.notBuilt(err, pool)
}

// notBuilt asks for a rebuild where err says that one is needed.
func (s *Labels) notBuilt(err error, pool string) error {
	return account.AskForRebuild(err, s.Rebuild.Wanted, pool)
}
