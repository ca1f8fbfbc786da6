package worker

import (
	"context"

	"github.com/hap-worker/hap-worker/engine/account"
)

// SharedPools says which shared pools Redis or the labels know.
func (h *Handler) SharedPools(names []string) { h.shared.Store(&names) }

// inSharedUse reports whether a shared pool still counts runtimes on an account whose labels
// say that it is shared no more. No claim can say so on its label, as no tenant claims a shared one.
func (h *Handler) inSharedUse(ctx context.Context, binding string) (bool, error) {
	pools := h.shared.Load()
	if pools == nil {
		return false, nil
	}
	for _, pool := range *pools {
		n, err := h.counters.InUse(ctx, pool, binding)
		if err != nil {
			return false, h.notBuilt(err, pool)
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}

// passOverShared drops a new claim that is of an account in shared use, and reports
// whether it did: no request has been answered with it, and the next one may be had.
func (h *Handler) passOverShared(ctx context.Context, job claimRequest, claim account.Claim, seen *candidates) (bool, error) {
	used, err := h.inSharedUse(ctx, claim.Binding)
	if err != nil || !used {
		return false, err
	}
	seen.passOver(claim.Binding)
	_, err = h.counters.Revoke(ctx, job.pool.Name(), claim)
	return true, err
}
