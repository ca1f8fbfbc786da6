package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// Repair repairs a drift if that is safe, and reports whether it did; for PlaceMissing and a refused RuntimeUnknown it
// also returns true if nothing was left to repair. It drains a claim, idle or with a runtime whose Shoot is gone, only
// if drainIdle is true.
func (a *Audit) Repair(ctx context.Context, d account.Drift, drainIdle bool) (bool, error) {
	changed, err := a.mend(ctx, d, drainIdle)
	if err != nil {
		return changed, fmt.Errorf("repair of %s, %s%s: %w", d.Kind, d.Binding, d.Runtime, err)
	}
	return changed, nil
}

func (a *Audit) mend(ctx context.Context, d account.Drift, drainIdle bool) (bool, error) {
	switch d.Kind {
	case account.CountWrong:
		return a.Repairer.Recount(ctx, d.Pool, d.Binding)
	case account.RuntimeMissing, account.ShootUnknown, account.RuntimeElsewhere:
		return a.restore(ctx, d)
	case account.RuntimeGoneAlready:
		return a.Repairer.ReleaseUnchanged(ctx, d.Pool, d.Runtime, d.Entry)
	case account.RuntimeUnknown:
		return a.takeBack(ctx, d)
	case account.WaitingUnknown:
		return a.Repairer.Forget(ctx, d.Pool, d.Runtime, d.Entry.Sequence) // only under this sequence, since the runtime may be assigned by now
	case account.ShootGone:
		if d.Remedy() == account.DrainOnly {
			if !drainIdle {
				return false, nil
			}
			return a.Repairer.ReleaseUnchanged(ctx, d.Pool, d.Runtime, d.Entry)
		}
		// The entry of the directory stays: a provision may just have read it.
		return a.Repairer.DropAdopted(ctx, d.Pool, d.Runtime, d.Binding)
	case account.PlaceMissing:
		place, err := a.Repairer.Locate(ctx, d.Runtime, d.Pool)
		return place.Pool == d.Pool, err
	case account.SequenceBehind:
		return a.Repairer.Raise(ctx, d.Pool, d.Highest)
	case account.LabelUnfollowed, account.BindingMissing:
		return a.follow(ctx, d)
	case account.TenantContradicts, account.LabelMissing, account.DirtyUnderRuntimes, account.GenerationDiffers:
		return a.Repairer.Doubt(ctx, d.Pool, d.Binding, d.Record.Generation)
	case account.ClaimedIdle:
		if !drainIdle {
			return false, nil
		}
		return a.Repairer.DrainIdle(ctx, d.Pool, d.Binding, d.Record.Generation)
	default:
		return false, nil
	}
}

// restore puts an assignment back. It first locates the runtime: the directory shows whether the runtime was
// deprovisioned meanwhile, and a later deprovision finds its pool there. restore changes nothing if it is
// unknown which record the runtime should have, or if the directory has the runtime as gone or in another pool.
func (a *Audit) restore(ctx context.Context, d account.Drift) (bool, error) {
	if d.Wanted.State == "" {
		return false, nil // it is unclear whether Redis or the ledger is right
	}
	place, err := a.Repairer.Locate(ctx, d.Runtime, d.Pool)
	if err != nil || place.Pool != d.Pool {
		return false, err
	}
	return a.Repairer.Restore(ctx, d.Pool, d.Runtime, d.Entry, d.Wanted, d.Should)
}

// follow reads the label again and updates Redis from it (rule 10). A deleted binding counts as unclaimed and
// clean. follow does nothing if the binding is in another pool by now, or if the drift is BindingMissing and
// the binding exists again.
func (a *Audit) follow(ctx context.Context, d account.Drift) (bool, error) {
	b, err := a.Reader.Get(ctx, d.Binding)
	switch {
	case engine.CodeOf(err) == engine.CodeUnknownBinding:
		b, err = engine.Binding{Name: d.Binding, Generation: d.Record.Generation}, nil
	case err == nil && (d.Kind == account.BindingMissing || b.Pool().Name() != d.Pool):
		return false, nil
	}
	if err != nil {
		return false, err
	}
	seen, err := a.Repairer.Observe(ctx, d.Pool, account.LabelOf(b, d.Record.Generation))
	return seen.Change != "", err
}

// RepairAll calls Repair for each drift until ctx ends, and returns the drifts for which Repair returned true, and the
// joined errors. A failed repair does not stop the others. Wrong counts come last. A count is not lowered if a runtime
// of the binding could not be restored before: another runtime could take the room of that runtime (I2).
func (a *Audit) RepairAll(ctx context.Context, drifts []account.Drift, drainIdle bool) (changed []account.Drift, err error) {
	drifts = slices.Clone(drifts)
	slices.SortStableFunc(drifts, func(a, b account.Drift) int { return last(a) - last(b) })
	lacks := map[string]bool{}
	var errs error
	for _, d := range drifts {
		if d.Kind == account.CountWrong && d.Surplus > 0 && lacks[d.Binding] {
			continue
		}
		ok, err := a.Repair(ctx, d, drainIdle)
		if !ok && d.Lacking != "" {
			lacks[d.Lacking] = true
		}
		if ok {
			changed = append(changed, d)
		}
		if ctx.Err() != nil {
			return changed, errors.Join(errs, context.Cause(ctx))
		}
		errs = errors.Join(errs, err)
	}
	return changed, errs
}

// last ranks wrong counts after all other drifts.
func last(d account.Drift) int {
	if d.Kind == account.CountWrong {
		return 1
	}
	return 0
}
