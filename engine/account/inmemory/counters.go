// Package inmemory keeps the account protocol of all pools in memory, as package counters keeps it in Redis.
package inmemory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// Counters implement the account protocol for all pools with account.Pool and account.Bucket, like package
// counters in Redis. They are safe for concurrent use, except Pool; each call is atomic, except Runtime. Errors:
// account.ErrNotBuilt, account.ErrRebuilt, engine.ErrNoLandscape for an invalid landscape, and the error of an
// ended context.
type Counters struct {
	mu        sync.Mutex
	pools     map[string]*account.Pool
	buckets   map[string]*account.Bucket
	landscape engine.Landscape // zero if none is recorded
}

// NewCounters returns counters in which nothing is built.
func NewCounters() *Counters {
	return &Counters{pools: map[string]*account.Pool{}, buckets: map[string]*account.Bucket{}}
}

// Lose deletes everything, like an empty Redis.
func (c *Counters) Lose(ctx context.Context) error {
	return c.do(ctx, func() {
		c.pools, c.buckets, c.landscape = map[string]*account.Pool{}, map[string]*account.Bucket{}, engine.Landscape{}
	})
}

// do calls f under the lock. It returns the error of ctx if that has ended.
func (c *Counters) do(ctx context.Context, f func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	return nil
}

// step calls f with the pool or bucket that find returns for name, under the lock, and returns f's results.
func step[P, T any](ctx context.Context, c *Counters, find func(string) P, name string, f func(P) (T, error)) (out T, err error) {
	if gone := c.do(ctx, func() { out, err = f(find(name)) }); gone != nil {
		return out, gone
	}
	return out, err
}

// pool returns a pool. For an unknown name it returns a pool that is not built, and does not store it.
func (c *Counters) pool(name string) *account.Pool {
	if p := c.pools[name]; p != nil {
		return p
	}
	return account.NewPool()
}

func (c *Counters) bucket(name string) *account.Bucket {
	if b := c.buckets[name]; b != nil {
		return b
	}
	return account.NewBucket()
}

func (c *Counters) bucketOf(runtime string) *account.Bucket {
	return c.bucket(account.BucketOf(runtime))
}

// site has the methods that a rebuild uses of a pool or bucket.
type site interface {
	BeginRebuild(token string, now time.Time, lease time.Duration) bool
	RenewRebuild(token string, now time.Time) bool
	Discard() bool
	Depose(epoch string) bool
	Status() account.Status
}

func (c *Counters) site(name string) site {
	if account.IsBucket(name) {
		return c.bucket(name)
	}
	return c.pool(name)
}

// Assign decides which binding a runtime gets, rule 3.
func (c *Counters) Assign(ctx context.Context, pool string, r account.Request) (account.Decision, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (account.Decision, error) { return p.Assign(r) })
}

// LocateAndAssign runs Locate and, if the runtime belongs to the pool and came from no other one, Assign.
// Otherwise the decision has no outcome. A tentative entry stays tentative.
func (c *Counters) LocateAndAssign(ctx context.Context, pool string, r account.Request) (account.Decision, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (account.Decision, error) {
		if !p.Status().Built {
			return account.Decision{}, account.ErrNotBuilt
		}
		bucket := c.bucketOf(r.Runtime)
		if place, _ := bucket.Place(r.Runtime); place.Tentative && bucket.Status().Built {
			return account.Decision{}, nil
		}
		place, err := bucket.Locate(r.Runtime, pool)
		if err != nil || place != (account.Place{Pool: pool}) {
			return account.Decision{}, err
		}
		return p.Assign(r)
	})
}

// Confirm records that a claim's label is written, and reports whether the claim may be answered, rule 5.
func (c *Counters) Confirm(ctx context.Context, pool string, claim account.Claim) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.Confirm(claim) })
}

// Revoke undoes an unconfirmed claim, and reports whether anything changed, rule 6.
func (c *Counters) Revoke(ctx context.Context, pool string, claim account.Claim) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.Revoke(claim) })
}

// ReleaseRuntime takes a runtime off its binding for good, rule 7.
func (c *Counters) ReleaseRuntime(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error) {
	return step(ctx, c, c.pool, place.Pool, func(p *account.Pool) (account.Departure, error) {
		return p.ReleaseRuntime(runtime, tenant, place.Sequence)
	})
}

// ReleaseUnknown is ReleaseRuntime for a runtime without a record, rule 7.
func (c *Counters) ReleaseUnknown(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error) {
	return step(ctx, c, c.pool, place.Pool, func(p *account.Pool) (account.Departure, error) {
		return p.ReleaseUnknown(runtime, tenant, place.Sequence)
	})
}

// Refuse ends the waiting of a request at its deadline, rule 12.
func (c *Counters) Refuse(ctx context.Context, place account.Place, runtime, request, tenant string) (account.Decision, error) {
	return step(ctx, c, c.pool, place.Pool, func(p *account.Pool) (account.Decision, error) {
		return p.Refuse(runtime, request, tenant, place.Sequence)
	})
}

// Leave takes a runtime without an account out of a pool, rule 16.
func (c *Counters) Leave(ctx context.Context, place account.Place, runtime, request, tenant string) (sequence int64, left bool, err error) {
	_, err = step(ctx, c, c.pool, place.Pool, func(p *account.Pool) (any, error) {
		sequence, left, err = p.Leave(runtime, request, tenant, place.Sequence)
		return nil, err
	})
	return sequence, left, err
}

// TakeBack undoes the assignment or the waiting of a refused request, rule 11.
func (c *Counters) TakeBack(ctx context.Context, pool, runtime, request, tenant string) error {
	_, err := step(ctx, c, c.pool, pool, func(p *account.Pool) (any, error) { return nil, p.TakeBack(runtime, request, tenant) })
	return err
}

// BeginDirtying permits the patch that marks a binding dirty, rule 8.
func (c *Counters) BeginDirtying(ctx context.Context, pool, binding string, generation int64) (account.Permit, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (account.Permit, error) { return p.BeginDirtying(binding, generation) })
}

// InUse returns the number of runtimes on a binding, rule 9.
func (c *Counters) InUse(ctx context.Context, pool, binding string) (int, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (int, error) { return p.InUse(binding) })
}

// MarkFreed makes a cleaned binding claimable if it is draining or dirtying, of this generation and without
// runtimes, rule 9. It reports whether it did.
func (c *Counters) MarkFreed(ctx context.Context, pool, binding string, generation int64) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.MarkFreed(binding, generation) })
}

// Observe applies a label that was read to the binding's record, rule 10.
func (c *Counters) Observe(ctx context.Context, pool string, l account.Label) (account.Observation, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (account.Observation, error) { return p.Observe(l) })
}

// Forget drops the record of a runtime if it has this sequence and is not assigned.
func (c *Counters) Forget(ctx context.Context, pool, runtime string, sequence int64) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.Forget(runtime, sequence) })
}

// Queue returns the runtimes that wait for a pool, in the order in which they are served.
func (c *Counters) Queue(ctx context.Context, pool string) ([]account.Waiter, error) {
	return step(ctx, c, c.pool, pool, (*account.Pool).Queue)
}

// Heads returns the first waiting runtime of each of up to most tenants of a pool, in the order of service.
func (c *Counters) Heads(ctx context.Context, pool string, most int) (account.Heads, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (account.Heads, error) { return p.Heads(most) })
}

// Recount sets a binding's count to the number of its runtimes.
func (c *Counters) Recount(ctx context.Context, pool, binding string) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.Recount(binding) })
}

// Restore replaces the record of a runtime by rt if it still equals was and the binding is not being
// claimed.
func (c *Counters) Restore(ctx context.Context, pool, runtime string, was, rt account.Runtime, should account.Record) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.Restore(runtime, was, rt, should) })
}

// ReleaseUnchanged makes a runtime gone whose record still equals was.
func (c *Counters) ReleaseUnchanged(ctx context.Context, pool, runtime string, was account.Runtime) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.ReleaseUnchanged(runtime, was) })
}

// DropAdopted removes a runtime that was adopted from a Shoot, from this binding.
func (c *Counters) DropAdopted(ctx context.Context, pool, runtime, binding string) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.DropAdopted(runtime, binding) })
}

// Doubt makes a confirmed claim of this generation unconfirmed.
func (c *Counters) Doubt(ctx context.Context, pool, binding string, generation int64) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.Doubt(binding, generation) })
}

// DrainIdle drains the claim of this generation if it is in use and has no runtimes.
func (c *Counters) DrainIdle(ctx context.Context, pool, binding string, generation int64) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.DrainIdle(binding, generation) })
}

// Raise raises the pool's sequence to at least this one.
func (c *Counters) Raise(ctx context.Context, pool string, sequence int64) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.Raise(sequence) })
}

// Pause stops new assignments in a pool.
func (c *Counters) Pause(ctx context.Context, pool string) error {
	_, err := step(ctx, c, c.pool, pool, func(p *account.Pool) (any, error) { return nil, p.Pause() })
	return err
}

// Resume ends Pause.
func (c *Counters) Resume(ctx context.Context, pool string) error {
	_, err := step(ctx, c, c.pool, pool, func(p *account.Pool) (any, error) { return nil, p.Resume() })
	return err
}

// Time returns the time by the clock of the store.
func (c *Counters) Time(ctx context.Context) (time.Time, error) { return time.Now(), ctx.Err() }

// BeginRebuild claims the rebuild of a pool or bucket, rule 13a.
func (c *Counters) BeginRebuild(ctx context.Context, place, token string, now time.Time, lease time.Duration) (bool, error) {
	return step(ctx, c, c.made, place, func(s site) (bool, error) { return s.BeginRebuild(token, now, lease), nil })
}

// made returns the pool or bucket of a name, and stores it if it is new.
func (c *Counters) made(name string) site {
	if account.IsBucket(name) {
		c.buckets[name] = c.bucket(name)
	} else {
		c.pools[name] = c.pool(name)
	}
	return c.site(name)
}

// RenewRebuild extends the lease of a rebuild.
func (c *Counters) RenewRebuild(ctx context.Context, place, token string, now time.Time) (bool, error) {
	return step(ctx, c, c.site, place, func(s site) (bool, error) { return s.RenewRebuild(token, now), nil })
}

// Install replaces a pool's records by a snapshot if the rebuild is still the token's, rule 13e.
func (c *Counters) Install(ctx context.Context, pool, token string, s account.Snapshot) (bool, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (bool, error) { return p.Install(token, s), nil })
}

// InstallBucket replaces a bucket's entries by a directory if the rebuild is still the token's.
func (c *Counters) InstallBucket(ctx context.Context, bucket, token string, d account.Directory) (bool, error) {
	return step(ctx, c, c.bucket, bucket, func(b *account.Bucket) (bool, error) { return b.Install(token, d), nil })
}

// Discard removes the epoch of a pool or bucket, as an operator's rebuild does.
func (c *Counters) Discard(ctx context.Context, place string) (bool, error) {
	return step(ctx, c, c.site, place, func(s site) (bool, error) { return s.Discard(), nil })
}

// Depose removes the epoch of a place if it still is epoch.
func (c *Counters) Depose(ctx context.Context, place, epoch string) (bool, error) {
	return step(ctx, c, c.site, place, func(s site) (bool, error) { return s.Depose(epoch), nil })
}

// Landscape returns the recorded landscape, and whether there is one.
func (c *Counters) Landscape(ctx context.Context) (l engine.Landscape, found bool, err error) {
	err = c.do(ctx, func() { l = c.landscape })
	return l, l != engine.Landscape{}, err
}

// ClaimLandscape records a landscape if none is recorded, and returns the recorded one.
func (c *Counters) ClaimLandscape(ctx context.Context, want engine.Landscape) (have engine.Landscape, err error) {
	if err := want.Check(); err != nil {
		return engine.Landscape{}, err
	}
	err = c.do(ctx, func() {
		if c.landscape == (engine.Landscape{}) {
			c.landscape = want
		}
		have = c.landscape
	})
	return have, err
}

// AdoptLandscape replaces the recorded landscape.
func (c *Counters) AdoptLandscape(ctx context.Context, l engine.Landscape) error {
	if err := l.Check(); err != nil {
		return err
	}
	return c.do(ctx, func() { c.landscape = l })
}

// Pools returns the sorted names of all pools for which a rebuild was begun, or which Pool has returned.
func (c *Counters) Pools(ctx context.Context) (names []string, err error) {
	err = c.do(ctx, func() { names = slices.AppendSeq([]string{}, maps.Keys(c.pools)) })
	slices.Sort(names)
	return names, err
}

// Restart restarts every pool and bucket, like a Redis that was started again with its records: none is
// built any more.
func (c *Counters) Restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pools {
		p.Restart()
	}
	for _, b := range c.buckets {
		b.Restart()
	}
}

// Pool returns the pool of a name itself, not a copy, and creates a missing one. The caller must not use it
// while other goroutines call methods of the counters.
func (c *Counters) Pool(name string) *account.Pool {
	c.pools[name] = c.pool(name)
	return c.pools[name]
}

// Copy returns an independent copy, like a promoted replica. Rebuilds that have begun go on in the copy,
// too.
func (c *Counters) Copy() *Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := NewCounters()
	out.landscape = c.landscape
	for name, p := range c.pools {
		out.pools[name] = p.Clone()
	}
	for name, b := range c.buckets {
		out.buckets[name] = b.Clone()
	}
	return out
}
