package simulation

import (
	"context"
	"iter"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/dirtying"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

// The production code visits some maps, whose order is random, and marks several bindings at a time. The types in
// this file show that code one element or few elements at a time, or collect what it marks.

// onePool shows a sweep only the pool whose turn it is, and only one of the records without a binding:
// package reconcile visits both in the order of a map.
type onePool struct {
	store

	pool engine.Pool
}

func (o onePool) Pools(ctx context.Context) ([]string, error) {
	_, err := o.store.Pools(ctx)
	return []string{o.pool.Name()}, err
}

func (o onePool) Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error] {
	return func(yield func(account.NamedRecord, error) bool) {
		var absent []account.NamedRecord
		for b, err := range o.store.Bindings(ctx, pool) {
			if err == nil {
				if c, known := o.p.garden.Cached(b.Binding); !known || c.Pool().Name() != pool {
					absent = append(absent, b)
					continue
				}
			}
			if !yield(b, err) {
				return
			}
		}
		if len(absent) > 0 {
			yield(absent[o.p.sweeps/2%len(absent)], nil)
		}
	}
}

type onePoolCache struct {
	*landscape

	pool engine.Pool
}

func (o onePoolCache) Pools() []engine.Pool { return []engine.Pool{o.pool} }

// marker is the worker as a sweep sees it. It marks no binding dirty but collects those that the sweep wants
// marked, since several goroutines ask for that at a time; process.mark marks them later, one after the other.
type marker struct{ p *process }

func (m marker) WakeTenant(pool, tenant string) { m.p.worker.WakeTenant(pool, tenant) }

func (m marker) SharedPools(names []string) { m.p.worker.SharedPools(names) }

func (m marker) MarkDirty(_ context.Context, pool, binding, tenant string, generation int64) (dirtying.Marking, error) {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.p.marks[binding] = vacant{pool, tenant, generation}
	return dirtying.Unmarked, nil
}

// oneGone shows retention few tombstones at a time: retention visits them in the order of a map.
type oneGone struct{ store }

func (o oneGone) shown(runtime string) bool {
	const apart = 24
	return slices.Index(plans.Runtimes, runtime)%apart == o.p.passes%apart
}

func (o oneGone) Runtimes(ctx context.Context, pool string) iter.Seq2[account.NamedRuntime, error] {
	return func(yield func(account.NamedRuntime, error) bool) {
		for rt, err := range o.store.Runtimes(ctx, pool) {
			if (err != nil || rt.State != account.RuntimeGone || o.shown(rt.ID)) && !yield(rt, err) {
				return
			}
		}
	}
}

func (o oneGone) Places(ctx context.Context, bucket string) iter.Seq2[account.NamedPlace, error] {
	return func(yield func(account.NamedPlace, error) bool) {
		for place, err := range o.store.Places(ctx, bucket) {
			if (err != nil || !place.Gone || o.shown(place.Runtime)) && !yield(place, err) {
				return
			}
		}
	}
}
