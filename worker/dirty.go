package worker

import (
	"context"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// marking is how an attempt to mark a binding dirty ended.
type marking int

const (
	unmarked  marking = iota // revived, gone, or its label shows another claim: nothing follows
	marked                   // it carries dirty=true now
	unclaimed                // nobody was ever answered with it: it is back in its pool
	inUse                    // a Shoot still refers to it: the sweep tries again
)

// MarkDirty marks an account that no Shoot refers to dirty, rule 8, and reports whether
// it is. It can be repeated.
func (h *Handler) MarkDirty(ctx context.Context, pool, binding, tenant string, generation int64) (bool, error) {
	became, err := h.markDirty(ctx, pool, binding, tenant, generation)
	return became == marked, err
}

func (h *Handler) markDirty(ctx context.Context, pool, binding, tenant string, generation int64) (marking, error) {
	for {
		b, err := h.gardener.Get(ctx, binding)
		if engine.CodeOf(err) == engine.CodeUnknownBinding {
			return unmarked, nil
		}
		if err != nil {
			return unmarked, err
		}
		refers, err := h.gardener.Refers(ctx, binding)
		if err != nil {
			return unmarked, err // never "no Shoot"
		}
		if refers {
			return inUse, nil
		}
		if shown, open := leftBy(b, tenant, generation); !open {
			return shown, nil
		}
		permit, err := h.counters.BeginDirtying(ctx, pool, binding, generation)
		if err != nil || !permit.Given {
			return unmarked, err
		}
		h.observer.Step(ctx, observe.StepDirtying)
		if refers, err := h.cameMeanwhile(ctx, binding, permit); err != nil || refers {
			return inUse, err
		}
		became, err := h.leaveLabel(ctx, pool, b, engine.Mark{Tenant: tenant, Generation: generation}, permit)
		switch {
		case err == nil:
			return became, nil
		case !outOfDate(err):
			return unmarked, err
		case ctx.Err() != nil:
			return unmarked, context.Cause(ctx)
		}
	}
}

// cameMeanwhile reports whether a Shoot refers to a binding that nobody can be assigned to
// any more. Its runtime may have come and left between the first look and the permit.
func (h *Handler) cameMeanwhile(ctx context.Context, binding string, permit account.Permit) (bool, error) {
	if permit.Pristine {
		return false, nil // nobody was answered with it
	}
	return h.gardener.Refers(ctx, binding)
}

// leaveLabel writes what a claim leaves on its label: dirty=true, or nothing where
// nobody was ever answered with it.
func (h *Handler) leaveLabel(ctx context.Context, pool string, seen engine.Binding, mark engine.Mark, permit account.Permit) (marking, error) {
	if !permit.Pristine {
		_, err := h.gardener.MarkDirty(ctx, seen, mark)
		return marked, err
	}
	if _, err := h.gardener.Unclaim(ctx, seen, mark); err != nil {
		return unmarked, err
	}
	h.observer.Step(ctx, observe.StepFreed)
	_, err := h.counters.MarkFreed(ctx, pool, seen.Name, mark.Generation)
	h.WakePool(pool)
	return unclaimed, err
}

// leftBy is what a label shows of a claim that no Shoot refers to. It is open where
// the claim is still to be marked dirty.
func leftBy(b engine.Binding, tenant string, generation int64) (shown marking, open bool) {
	switch {
	case b.Dirty && b.Tenant == tenant && b.Generation == generation:
		return marked, false
	case b.Dirty, b.Pool().Shared, b.Internal, !sameClaim(b, tenant, generation):
		return unmarked, false
	default:
		return unmarked, true
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
