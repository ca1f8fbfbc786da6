// Package accounttest runs the same stories on every implementation of the account protocol, the model of
// package account and the Redis scripts of package counters, and requires the same text of both.
package accounttest

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Machine keeps the account protocol for all pools.
type Machine interface {
	Assign(ctx context.Context, pool string, r account.Request) (account.Decision, error)
	Confirm(ctx context.Context, pool string, c account.Claim) (bool, error)
	Revoke(ctx context.Context, pool string, c account.Claim) (bool, error)
	ReleaseRuntime(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error)
	Refuse(ctx context.Context, place account.Place, runtime, request string) (account.Decision, error)
	Leave(ctx context.Context, place account.Place, runtime, request, tenant string) (sequence int64, left bool, err error)
	TakeBack(ctx context.Context, pool, runtime, request string) error
	BeginDirtying(ctx context.Context, pool, binding string, generation int64) (account.Permit, error)
	InUse(ctx context.Context, pool, binding string) (int, error)
	MarkFreed(ctx context.Context, pool, binding string, generation int64) (bool, error)
	Observe(ctx context.Context, pool string, l account.Label) (account.Observation, error)
	Forget(ctx context.Context, pool, runtime string, sequence int64) (bool, error)
	Pause(ctx context.Context, pool string) error
	Resume(ctx context.Context, pool string) error

	Recount(ctx context.Context, pool, binding string) (bool, error)
	Restore(ctx context.Context, pool, runtime string, was, rt account.Runtime, should account.Record) (bool, error)
	DropAdopted(ctx context.Context, pool, runtime, binding string) (bool, error)
	Doubt(ctx context.Context, pool, binding string, generation int64) (bool, error)
	DrainIdle(ctx context.Context, pool, binding string, generation int64) (bool, error)
	Raise(ctx context.Context, pool string, sequence int64) (bool, error)

	Locate(ctx context.Context, runtime, pool string) (account.Place, error)
	LocateAndAssign(ctx context.Context, pool string, r account.Request) (account.Decision, error)
	Depart(ctx context.Context, runtime string) (account.Place, error)
	ForgetPlace(ctx context.Context, runtime string, p account.Place) (bool, error)
	MovePlace(ctx context.Context, runtime string, from, to account.Place) (bool, error)

	BeginRebuild(ctx context.Context, place, token string, now time.Time, lease time.Duration) (bool, error)
	RenewRebuild(ctx context.Context, place, token string, now time.Time) (bool, error)
	Install(ctx context.Context, pool, token string, s account.Snapshot) (bool, error)
	InstallBucket(ctx context.Context, bucket, token string, d account.Directory) (bool, error)
	Discard(ctx context.Context, place string) (bool, error)
	Status(ctx context.Context, place string) (account.Status, error)

	Queue(ctx context.Context, pool string) ([]account.Waiter, error)
	Heads(ctx context.Context, pool string, most int) (account.Heads, error)

	// Records returns all records of a pool by name. It may return ErrNotBuilt.
	Records(ctx context.Context, pool string) ([]account.NamedRecord, []account.NamedRuntime, error)
	// Lose forgets everything.
	Lose(ctx context.Context) error
}

// Model is the Machine made of account.Pool and account.Bucket.
type Model struct {
	pools   map[string]*account.Pool
	buckets map[string]*account.Bucket
}

// NewModel returns a model of which nothing is built.
func NewModel() *Model {
	return &Model{pools: map[string]*account.Pool{}, buckets: map[string]*account.Bucket{}}
}

var _ Machine = (*Model)(nil)

// Pool returns the pool of that name.
func (m *Model) Pool(name string) *account.Pool {
	if m.pools[name] == nil {
		m.pools[name] = account.NewPool()
	}
	return m.pools[name]
}

// Bucket returns the bucket of that name.
func (m *Model) Bucket(name string) *account.Bucket {
	if m.buckets[name] == nil {
		m.buckets[name] = account.NewBucket()
	}
	return m.buckets[name]
}

func (m *Model) bucketOf(runtime string) *account.Bucket {
	return m.Bucket(account.BucketOf(runtime))
}

// place returns the pool or bucket of that name, with the operations of a rebuild.
func (m *Model) place(name string) interface {
	BeginRebuild(token string, now time.Time, lease time.Duration) bool
	RenewRebuild(token string, now time.Time) bool
	Discard() bool
	Status() account.Status
} {
	if len(name) > 2 && name[:3] == "rt:" {
		return m.Bucket(name)
	}
	return m.Pool(name)
}

// Assign calls the pool.
func (m *Model) Assign(_ context.Context, pool string, r account.Request) (account.Decision, error) {
	return m.Pool(pool).Assign(r)
}

// Confirm calls the pool.
func (m *Model) Confirm(_ context.Context, pool string, c account.Claim) (bool, error) {
	return m.Pool(pool).Confirm(c)
}

// Revoke calls the pool.
func (m *Model) Revoke(_ context.Context, pool string, c account.Claim) (bool, error) {
	return m.Pool(pool).Revoke(c)
}

// ReleaseRuntime calls the pool.
func (m *Model) ReleaseRuntime(_ context.Context, place account.Place, runtime, tenant string) (account.Departure, error) {
	return m.Pool(place.Pool).ReleaseRuntime(runtime, tenant, place.Sequence)
}

// Refuse calls the pool.
func (m *Model) Refuse(_ context.Context, place account.Place, runtime, request string) (account.Decision, error) {
	return m.Pool(place.Pool).Refuse(runtime, request, place.Sequence)
}

// Leave calls the pool.
func (m *Model) Leave(_ context.Context, place account.Place, runtime, request, tenant string) (sequence int64, left bool, err error) {
	return m.Pool(place.Pool).Leave(runtime, request, tenant, place.Sequence)
}

// TakeBack calls the pool.
func (m *Model) TakeBack(_ context.Context, pool, runtime, request string) error {
	return m.Pool(pool).TakeBack(runtime, request)
}

// BeginDirtying calls the pool.
func (m *Model) BeginDirtying(_ context.Context, pool, binding string, generation int64) (account.Permit, error) {
	return m.Pool(pool).BeginDirtying(binding, generation)
}

// InUse calls the pool.
func (m *Model) InUse(_ context.Context, pool, binding string) (int, error) {
	return m.Pool(pool).InUse(binding)
}

// MarkFreed calls the pool.
func (m *Model) MarkFreed(_ context.Context, pool, binding string, generation int64) (bool, error) {
	return m.Pool(pool).MarkFreed(binding, generation)
}

// Observe calls the pool.
func (m *Model) Observe(_ context.Context, pool string, l account.Label) (account.Observation, error) {
	return m.Pool(pool).Observe(l)
}

// Forget calls the pool.
func (m *Model) Forget(_ context.Context, pool, runtime string, sequence int64) (bool, error) {
	return m.Pool(pool).Forget(runtime, sequence)
}

// Recount calls the pool.
func (m *Model) Recount(_ context.Context, pool, binding string) (bool, error) {
	return m.Pool(pool).Recount(binding)
}

// Restore calls the pool.
func (m *Model) Restore(_ context.Context, pool, runtime string, was, rt account.Runtime, should account.Record) (bool, error) {
	return m.Pool(pool).Restore(runtime, was, rt, should)
}

// DropAdopted calls the pool.
func (m *Model) DropAdopted(_ context.Context, pool, runtime, binding string) (bool, error) {
	return m.Pool(pool).DropAdopted(runtime, binding)
}

// Doubt calls the pool.
func (m *Model) Doubt(_ context.Context, pool, binding string, generation int64) (bool, error) {
	return m.Pool(pool).Doubt(binding, generation)
}

// DrainIdle calls the pool.
func (m *Model) DrainIdle(_ context.Context, pool, binding string, generation int64) (bool, error) {
	return m.Pool(pool).DrainIdle(binding, generation)
}

// Raise calls the pool.
func (m *Model) Raise(_ context.Context, pool string, sequence int64) (bool, error) {
	return m.Pool(pool).Raise(sequence)
}

// Pause calls the pool.
func (m *Model) Pause(_ context.Context, pool string) error { return m.Pool(pool).Pause() }

// Resume calls the pool.
func (m *Model) Resume(_ context.Context, pool string) error { return m.Pool(pool).Resume() }

// Locate calls the runtime's bucket.
func (m *Model) Locate(_ context.Context, runtime, pool string) (account.Place, error) {
	return m.bucketOf(runtime).Locate(runtime, pool)
}

// LocateAndAssign calls Locate and then Assign. It returns a zero Decision if the runtime belongs to another
// pool.
func (m *Model) LocateAndAssign(ctx context.Context, pool string, r account.Request) (account.Decision, error) {
	if !m.Pool(pool).Status().Built {
		return account.Decision{}, account.ErrNotBuilt
	}
	place, err := m.Locate(ctx, r.Runtime, pool)
	if err != nil || place != (account.Place{Pool: pool}) {
		return account.Decision{}, err
	}
	return m.Assign(ctx, pool, r)
}

// Depart calls the runtime's bucket.
func (m *Model) Depart(_ context.Context, runtime string) (account.Place, error) {
	return m.bucketOf(runtime).Depart(runtime)
}

// ForgetPlace calls the runtime's bucket.
func (m *Model) ForgetPlace(_ context.Context, runtime string, p account.Place) (bool, error) {
	return m.bucketOf(runtime).Forget(runtime, p)
}

// MovePlace calls the runtime's bucket.
func (m *Model) MovePlace(_ context.Context, runtime string, from, to account.Place) (bool, error) {
	return m.bucketOf(runtime).Move(runtime, from, to)
}

// BeginRebuild calls the pool or bucket.
func (m *Model) BeginRebuild(_ context.Context, place, token string, now time.Time, lease time.Duration) (bool, error) {
	return m.place(place).BeginRebuild(token, now, lease), nil
}

// RenewRebuild calls the pool or bucket.
func (m *Model) RenewRebuild(_ context.Context, place, token string, now time.Time) (bool, error) {
	return m.place(place).RenewRebuild(token, now), nil
}

// Install calls the pool.
func (m *Model) Install(_ context.Context, pool, token string, s account.Snapshot) (bool, error) {
	return m.Pool(pool).Install(token, s), nil
}

// InstallBucket calls the bucket.
func (m *Model) InstallBucket(_ context.Context, bucket, token string, d account.Directory) (bool, error) {
	return m.Bucket(bucket).Install(token, d), nil
}

// Discard discards the pool or bucket.
func (m *Model) Discard(_ context.Context, place string) (bool, error) {
	return m.place(place).Discard(), nil
}

// Restart restarts every pool and bucket.
func (m *Model) Restart() {
	for _, p := range m.pools {
		p.Restart()
	}
	for _, b := range m.buckets {
		b.Restart()
	}
}

// Status returns the status of the pool or bucket, the zero Status if it is not built.
func (m *Model) Status(_ context.Context, place string) (account.Status, error) {
	if s := m.place(place).Status(); s.Built {
		return s, nil
	}
	return account.Status{}, nil
}

// Records returns the pool's records by name.
func (m *Model) Records(_ context.Context, pool string) ([]account.NamedRecord, []account.NamedRuntime, error) {
	p := m.Pool(pool)
	if !p.Status().Built {
		return nil, nil, account.ErrNotBuilt
	}
	return p.Bindings(), p.Runtimes(), nil
}

// Lose forgets everything.
func (m *Model) Lose(context.Context) error {
	*m = *NewModel()
	return nil
}

// Queue calls the pool.
func (m *Model) Queue(_ context.Context, pool string) ([]account.Waiter, error) {
	return m.Pool(pool).Queue()
}

// Heads calls the pool.
func (m *Model) Heads(_ context.Context, pool string, most int) (account.Heads, error) {
	return m.Pool(pool).Heads(most)
}
