package worker

import (
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/bulkhead"
)

// failedPart reports whether an error counts as a failure of the part. ErrNotBuilt, ErrRebuilt and
// ErrNotInForce do not count: Redis has answered. Nor does ErrRefused: it may be about one account, and the other
// accounts of the pool are not to wait for that.
func failedPart(of bulkhead.Part, err error) bool {
	if of.Dependency == bulkhead.Records {
		return transient(err) && !rebuilding(err) && !errors.Is(err, account.ErrNotInForce)
	}
	if errors.Is(err, engine.ErrRefused) {
		return false
	}
	return errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrUnknownResult) || errors.Is(err, context.DeadlineExceeded)
}

// unavailable reports whether err means that Gardener is unavailable, or refuses a write (engine.ErrRefused). An open
// circuit of Redis does not count.
func unavailable(err error) bool {
	if held, is := errors.AsType[*bulkhead.Error](err); is {
		return held.Part.Dependency != bulkhead.Records
	}
	return errors.Is(err, engine.ErrUnavailable)
}

// guardedCounters guard the four methods below: while the circuit of the pool's records is open, they fail at once,
// except one call a second. One of them is usually an event's first call on the records of a pool.
type guardedCounters struct {
	Counters
	parts *bulkhead.Bulkheads
}

func (g guardedCounters) Assign(ctx context.Context, pool string, r account.Request) (account.Decision, error) {
	return bulkhead.Ask(g.parts, bulkhead.Part{Dependency: bulkhead.Records, Pool: pool}, func() (account.Decision, error) { return g.Counters.Assign(ctx, pool, r) })
}

func (g guardedCounters) LocateAndAssign(ctx context.Context, pool string, r account.Request) (account.Decision, error) {
	return bulkhead.Ask(g.parts, bulkhead.Part{Dependency: bulkhead.Records, Pool: pool}, func() (account.Decision, error) { return g.Counters.LocateAndAssign(ctx, pool, r) })
}

func (g guardedCounters) ReleaseRuntime(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error) {
	return bulkhead.Ask(g.parts, bulkhead.Part{Dependency: bulkhead.Records, Pool: place.Pool}, func() (account.Departure, error) { return g.Counters.ReleaseRuntime(ctx, place, runtime, tenant) })
}

func (g guardedCounters) InUse(ctx context.Context, pool, binding string) (int, error) {
	return bulkhead.Ask(g.parts, bulkhead.Part{Dependency: bulkhead.Records, Pool: pool}, func() (int, error) { return g.Counters.InUse(ctx, pool, binding) })
}

// guardedGardener guards the methods below in the same way. The parts are the reads of a pool's bindings, the writes of
// their labels, and the list of the Shoots. An event that makes such a call no longer counts toward
// Options.Concurrency (leavePlace).
type guardedGardener struct {
	Gardener
	parts *bulkhead.Bulkheads
}

func (g guardedGardener) binding(ctx context.Context, of bulkhead.Dependency, pool string, call func(context.Context) (engine.Binding, error)) (engine.Binding, error) {
	leavePlace(ctx)
	return bulkhead.AskBounded(ctx, g.parts, bulkhead.Part{Dependency: of, Pool: pool}, call)
}

func (g guardedGardener) Get(ctx context.Context, name string) (engine.Binding, error) {
	pool := ""
	if b, known := g.Cached(name); known {
		pool = b.Pool().Name()
	}
	return g.binding(ctx, bulkhead.Bindings, pool, func(ctx context.Context) (engine.Binding, error) { return g.Gardener.Get(ctx, name) })
}

func (g guardedGardener) Claim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return g.binding(ctx, bulkhead.Labels, seen.Pool().Name(), func(ctx context.Context) (engine.Binding, error) { return g.Gardener.Claim(ctx, seen, mark) })
}

func (g guardedGardener) MarkDirty(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return g.binding(ctx, bulkhead.Labels, seen.Pool().Name(), func(ctx context.Context) (engine.Binding, error) { return g.Gardener.MarkDirty(ctx, seen, mark) })
}

func (g guardedGardener) Unclaim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return g.binding(ctx, bulkhead.Labels, seen.Pool().Name(), func(ctx context.Context) (engine.Binding, error) { return g.Gardener.Unclaim(ctx, seen, mark) })
}

func (g guardedGardener) Free(ctx context.Context, seen engine.Binding, request string) (engine.Binding, error) {
	return g.binding(ctx, bulkhead.Labels, seen.Pool().Name(), func(ctx context.Context) (engine.Binding, error) { return g.Gardener.Free(ctx, seen, request) })
}

func (g guardedGardener) Refers(ctx context.Context, binding string) (bool, error) {
	leavePlace(ctx)
	return bulkhead.AskBounded(ctx, g.parts, bulkhead.Part{Dependency: bulkhead.Shoots}, func(ctx context.Context) (bool, error) { return g.Gardener.Refers(ctx, binding) })
}
