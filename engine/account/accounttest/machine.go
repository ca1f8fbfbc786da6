// Package accounttest runs the same stories on every implementation of the account protocol, the model of
// package account and the Redis scripts of package counters, and requires the same text of both.
package accounttest

import (
	"cmp"
	"context"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/account/inmemory"
)

// Machine keeps the account protocol for all pools.
type Machine interface {
	Assign(ctx context.Context, pool string, r account.Request) (account.Decision, error)
	Confirm(ctx context.Context, pool string, c account.Claim) (bool, error)
	Revoke(ctx context.Context, pool string, c account.Claim) (bool, error)
	ReleaseRuntime(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error)
	ReleaseUnknown(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error)
	Refuse(ctx context.Context, place account.Place, runtime, request, tenant string) (account.Decision, error)
	Leave(ctx context.Context, place account.Place, runtime, request, tenant string) (sequence int64, left bool, err error)
	TakeBack(ctx context.Context, pool, runtime, request, tenant string) error
	BeginDirtying(ctx context.Context, pool, binding string, generation int64) (account.Permit, error)
	InUse(ctx context.Context, pool, binding string) (int, error)
	MarkFreed(ctx context.Context, pool, binding string, generation int64) (bool, error)
	Observe(ctx context.Context, pool string, l account.Label) (account.Observation, error)
	Forget(ctx context.Context, pool, runtime string, sequence int64) (bool, error)
	Pause(ctx context.Context, pool string) error
	Resume(ctx context.Context, pool string) error

	Recount(ctx context.Context, pool, binding string) (bool, error)
	Restore(ctx context.Context, pool, runtime string, was, rt account.Runtime, should account.Record) (bool, error)
	ReleaseUnchanged(ctx context.Context, pool, runtime string, was account.Runtime) (bool, error)
	DropAdopted(ctx context.Context, pool, runtime, binding string) (bool, error)
	Doubt(ctx context.Context, pool, binding string, generation int64) (bool, error)
	DrainIdle(ctx context.Context, pool, binding string, generation int64) (bool, error)
	Raise(ctx context.Context, pool string, sequence int64) (bool, error)

	Locate(ctx context.Context, runtime, pool string) (account.Place, error)
	LocateAndAssign(ctx context.Context, pool string, r account.Request) (account.Decision, error)
	Depart(ctx context.Context, runtime string) (account.Place, error)
	BeginForgetting(ctx context.Context, runtime string, was account.Place) (account.Place, error)
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

// Model is the Machine in memory, made of account.Pool and account.Bucket.
type Model struct{ *inmemory.Counters }

// NewModel returns a model of which nothing is built.
func NewModel() Model { return Model{inmemory.NewCounters()} }

// NewBuilt returns a model with these pools, empty, and with all buckets of the directory.
func NewBuilt(pools ...string) Model {
	m := NewModel()
	if err := build(context.Background(), m, pools...); err != nil {
		panic(err) // impossible: the model only refuses a second rebuild
	}
	return m
}

// build installs empty pools, and every bucket of the directory.
func build(ctx context.Context, m Machine, pools ...string) error {
	now := time.Unix(1_000_000, 0)
	for n := range account.Buckets {
		name := account.BucketName(n)
		_, err := m.BeginRebuild(ctx, name, "e1", now, time.Minute)
		_, failed := m.InstallBucket(ctx, name, "e1", account.Directory{})
		if err := cmp.Or(err, failed); err != nil {
			return err
		}
	}
	for _, pool := range pools {
		_, err := m.BeginRebuild(ctx, pool, "e1", now, time.Minute)
		_, failed := m.Install(ctx, pool, "e1", account.Snapshot{})
		if err := cmp.Or(err, failed); err != nil {
			return err
		}
	}
	return nil
}

var _ Machine = Model{}

// Records returns the pool's records by name.
func (m Model) Records(ctx context.Context, pool string) (bindings []account.NamedRecord, runtimes []account.NamedRuntime, err error) {
	for b, err := range m.Bindings(ctx, pool) {
		if err != nil {
			return nil, nil, err
		}
		bindings = append(bindings, b)
	}
	for r, err := range m.Runtimes(ctx, pool) {
		if err != nil {
			return nil, nil, err
		}
		runtimes = append(runtimes, r)
	}
	return bindings, runtimes, nil
}
