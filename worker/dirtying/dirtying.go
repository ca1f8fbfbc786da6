// Package dirtying marks an account dirty that its last runtime has left and no Shoot refers
// to: rule 8 of docs/protocol.md. A deprovision does so at once, a sweep where that could not.
package dirtying

import (
	"context"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Bindings reads and writes labels at their source. The errors are those of worker.Labeller.
type Bindings interface {
	Get(ctx context.Context, name string) (engine.Binding, error)
	// MarkDirty writes dirty=true with the mark.
	MarkDirty(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error)
	// Unclaim takes tenantName off a binding that no request was answered with, and
	// leaves the generation of the mark.
	Unclaim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error)
}

// Shoots knows which Shoots use a binding.
type Shoots interface {
	// Refers reports whether any Shoot names the binding. An error is never "no".
	Refers(ctx context.Context, binding string) (bool, error)
}

// Records are those of the accounts: package counters. Every method may return
// account.ErrNotBuilt or the connection's error; all of them can be repeated.
type Records interface {
	// BeginDirtying permits the patch that marks a binding dirty, or returns it to
	// its pool where it is pristine: rule 8.
	BeginDirtying(ctx context.Context, pool, binding string, generation int64) (account.Permit, error)
	// MarkFreed makes a cleaned binding claimable, rule 9.
	MarkFreed(ctx context.Context, pool, binding string, generation int64) (bool, error)
}

// Rebuilder builds again what Redis has lost.
type Rebuilder interface {
	// Wanted asks for a rebuild of what is not built, pool among it; it does not wait.
	Wanted(pool string)
}

// Waker has requests looked at that wait.
type Waker interface {
	// WakePool says that a pool may have an account that is not claimed.
	WakePool(pool string)
}

// Options are what a marker works with.
type Options struct {
	Bindings Bindings
	Shoots   Shoots
	Records  Records
	Rebuild  Rebuilder
	Wakes    Waker
	Observer *observe.Observer
}

// Marker marks accounts dirty.
type Marker struct{ with Options }

// New returns a marker.
func New(o Options) *Marker { return &Marker{o} }

// Marking is how an attempt to mark a binding dirty ended.
type Marking int

// The ends of an attempt.
const (
	Unmarked  Marking = iota // revived, gone, or its label shows another claim: nothing follows
	Marked                   // it carries dirty=true now
	Unclaimed                // no request was ever answered with it: it is back in its pool
	InUse                    // a Shoot still refers to it: the sweep tries again
)

// MarkDirty marks the account that a claim was of dirty, where no Shoot refers to it. It can
// be repeated.
func (m *Marker) MarkDirty(ctx context.Context, pool, binding, tenant string, generation int64) (Marking, error) {
	for {
		b, err := m.with.Bindings.Get(ctx, binding)
		if engine.CodeOf(err) == engine.CodeUnknownBinding {
			return Unmarked, nil
		}
		if err != nil {
			return Unmarked, err
		}
		refers, err := m.with.Shoots.Refers(ctx, binding)
		if err != nil {
			return Unmarked, err // never "no Shoot"
		}
		if refers {
			return InUse, nil
		}
		if shown, open := leftBy(b, pool, tenant, generation); !open {
			return shown, nil
		}
		permit, err := m.with.Records.BeginDirtying(ctx, pool, binding, generation)
		if err != nil || !permit.Given {
			return Unmarked, account.AskForRebuild(err, m.with.Rebuild.Wanted, pool) // the sweep's marking may be the only one to ask
		}
		m.with.Observer.Step(ctx, observe.StepDirtying)
		if refers, err := m.cameMeanwhile(ctx, binding, permit); err != nil || refers {
			return InUse, err
		}
		became, err := m.leaveLabel(ctx, pool, b, engine.Mark{Tenant: tenant, Generation: generation}, permit)
		switch {
		case err == nil:
			return became, nil
		case !engine.OutOfDate(err):
			return Unmarked, err
		case ctx.Err() != nil:
			return Unmarked, context.Cause(ctx)
		}
	}
}

// cameMeanwhile reports whether a Shoot refers to a binding that no runtime can be assigned
// to any more. Its runtime may have come and left between the first look and the permit.
func (m *Marker) cameMeanwhile(ctx context.Context, binding string, permit account.Permit) (bool, error) {
	if permit.Pristine {
		return false, nil // no request was answered with it
	}
	return m.with.Shoots.Refers(ctx, binding)
}

// leaveLabel writes what a claim leaves on its label: dirty=true, or nothing where
// no request was ever answered with it.
func (m *Marker) leaveLabel(ctx context.Context, pool string, seen engine.Binding, mark engine.Mark, permit account.Permit) (Marking, error) {
	if !permit.Pristine {
		_, err := m.with.Bindings.MarkDirty(ctx, seen, mark)
		return Marked, err
	}
	if _, err := m.with.Bindings.Unclaim(ctx, seen, mark); err != nil {
		return Unmarked, err
	}
	m.with.Observer.Step(ctx, observe.StepFreed)
	_, err := m.with.Records.MarkFreed(ctx, pool, seen.Name, mark.Generation)
	m.with.Wakes.WakePool(pool)
	return Unclaimed, err
}

// leftBy returns what a label shows of a claim that no Shoot refers to. It is open where
// the claim is still to be marked dirty. A binding that another pool counts has been moved
// before the claim was on its label: what is there may be a claim of that pool.
func leftBy(b engine.Binding, pool, tenant string, generation int64) (shown Marking, open bool) {
	switch {
	case b.Pool().Name() != pool:
		return Unmarked, false
	case b.Dirty && b.Tenant == tenant && b.Generation == generation:
		return Marked, false
	case b.Dirty, b.Pool().Shared, b.Internal, !sameClaim(b, tenant, generation):
		return Unmarked, false
	default:
		return Unmarked, true
	}
}

// sameClaim reports whether a label still shows this very claim, or a claim whose
// label was never written: rule 8.
func sameClaim(b engine.Binding, tenant string, generation int64) bool {
	if b.Tenant == "" {
		return b.Generation < generation
	}
	return b.Tenant == tenant && b.Generation <= generation
}
