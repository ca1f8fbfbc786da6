// Package dirtying marks an account dirty once its last runtime has left and no Shoot refers to it (rule 8 of
// docs/protocol.md). A deprovision tries this at once; a sweep repeats it later.
package dirtying

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Bindings reads and patches bindings at the API. The errors are listed at worker.Gardener.
type Bindings interface {
	Get(ctx context.Context, name string) (engine.Binding, error)
	// MarkDirty writes dirty=true with the mark.
	MarkDirty(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error)
	// Unclaim removes tenantName and writes the generation of the mark. It is for a claim with which
	// no request was answered.
	Unclaim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error)
}

// Shoots reports which bindings are used by Shoots.
type Shoots interface {
	// Refers reports whether any Shoot names the binding, or another one with the same credentials. After an error
	// that is unknown.
	Refers(ctx context.Context, binding string) (bool, error)
}

// Records are the records of accounts: package counters. Every method may return account.ErrNotBuilt or an
// error of the connection. All of them are idempotent.
type Records interface {
	// BeginDirtying permits the patch that marks a binding dirty, if the binding is draining or dirtying,
	// of this generation and without runtimes. For a pristine binding (no request was answered with the
	// claim), it permits the patch that removes tenantName instead (rule 8). Otherwise the Permit is not Given.
	BeginDirtying(ctx context.Context, pool, binding string, generation int64) (account.Permit, error)
	// MarkFreed makes a cleaned binding claimable, and reports whether it did (rule 9). It changes only a
	// draining or dirtying binding without runtimes, of this generation.
	MarkFreed(ctx context.Context, pool, binding string, generation int64) (bool, error)
}

// Waker wakes waiting requests.
type Waker interface {
	// WakePool reports that a pool may have an unclaimed account.
	WakePool(pool string)
}

// Options configure a marker.
type Options struct {
	Bindings Bindings
	Shoots   Shoots
	Records  Records
	Rebuild  account.Rebuilder
	Wakes    Waker
	Observer *observe.Observer
}

// Marker marks accounts dirty.
type Marker struct{ with Options }

// New returns a marker.
func New(o Options) *Marker { return &Marker{o} }

// Marking is the result of MarkDirty.
type Marking int

// The results of MarkDirty.
const (
	Unmarked  Marking = iota // not marked: revived, deleted, shared, internal, or its label shows another claim or pool
	Marked                   // its label is dirty=true now
	Unclaimed                // back in its pool, since no request was answered with the claim
	InUse                    // a Shoot still refers to it; the sweep tries again
)

// MarkDirty marks the account of an ended claim dirty, if no Shoot refers to it. If no request was answered with
// the claim, it returns the account to its pool instead. Marking says what it did. It is idempotent, and retries
// after a conflict or an unknown result, with pauses, until ctx ends.
func (m *Marker) MarkDirty(ctx context.Context, pool, binding, tenant string, generation int64) (Marking, error) {
	pauses := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(time.Second),
		backoff.WithMaxElapsedTime(0), backoff.WithRandomizationFactor(0))
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
			return Unmarked, err // must not count as "no Shoot"
		}
		if refers {
			return InUse, nil
		}
		if shown, open := leftBy(b, pool, tenant, generation); !open {
			return shown, nil
		}
		permit, err := m.with.Records.BeginDirtying(ctx, pool, binding, generation)
		if err != nil || !permit.Given {
			return Unmarked, account.AskForRebuild(err, m.with.Rebuild, pool) // perhaps the only call that notices the loss
		}
		m.with.Observer.Step(ctx, observe.StepDirtying)
		if refers, err := m.cameMeanwhile(ctx, binding, permit); err != nil || refers {
			return InUse, err
		}
		became, err := m.leaveLabel(ctx, pool, b, engine.Mark{Tenant: tenant, Generation: generation}, permit)
		switch {
		case err == nil:
			return became, nil
		case engine.CodeOf(err) == engine.CodeUnknownBinding:
			return Unmarked, nil
		case !engine.OutOfDate(err):
			return Unmarked, err
		}
		select {
		case <-ctx.Done():
			return Unmarked, fmt.Errorf("%w; the last attempt: %s", context.Cause(ctx), err.Error()) // not wrapped: no caller may decide by err
		case <-time.After(pauses.NextBackOff()):
		}
	}
}

// cameMeanwhile reads the Shoots once more and reports whether one refers to the binding. Between the first read
// and the permit a runtime may have come and left, and its Shoot may exist. After the permit no runtime can be
// assigned to the binding. For a pristine claim it returns false without a read.
func (m *Marker) cameMeanwhile(ctx context.Context, binding string, permit account.Permit) (bool, error) {
	if permit.Pristine {
		return false, nil // no request was answered with it
	}
	return m.with.Shoots.Refers(ctx, binding)
}

// leaveLabel writes the label at the end of a claim: dirty=true. If the claim is pristine, it instead removes
// tenantName and frees the binding in Redis.
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

// leftBy decides by the label whether an ended claim is still to be marked dirty (open). If not, shown is the
// result of MarkDirty. A binding that is in another pool was moved before this claim was on its label; the
// label may show a claim of the other pool.
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

// sameClaim reports whether a label shows this claim, or an older state because this claim was never written
// (rule 8).
func sameClaim(b engine.Binding, tenant string, generation int64) bool {
	if b.Tenant == "" {
		return b.Generation < generation
	}
	return b.Tenant == tenant && b.Generation <= generation
}
