package worker

import (
	"cmp"
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/engine/account"
)

// SharedPools sets the names of the shared pools that Redis or the labels know.
func (h *Handler) SharedPools(names []string) { h.shared.Store(&names) }

// inSharedUse reports whether a shared pool still counts runtimes on an account whose labels no longer say shared. The
// label cannot show this, since no claim is written on a shared account. Before the first call of SharedPools it
// returns false. It passes over pools that are not built, asks for their rebuild, and returns the first error.
func (h *Handler) inSharedUse(ctx context.Context, binding string) (bool, error) {
	pools := h.shared.Load()
	if pools == nil {
		return false, nil
	}
	var first error
	for _, pool := range *pools {
		n, err := h.counters.InUse(ctx, pool, binding)
		if n > 0 {
			return true, nil
		}
		first = cmp.Or(first, h.notBuilt(err, pool))
		if err != nil && !errors.Is(err, account.ErrNotBuilt) {
			break
		}
	}
	return false, first
}

// passOverShared revokes a new claim of an account in shared use, and reports whether it did. No request
// was answered with the claim, so the search goes on with another binding.
func (h *Handler) passOverShared(ctx context.Context, job claimRequest, claim account.Claim, seen *candidates) (bool, error) {
	used, err := h.inSharedUse(ctx, claim.Binding)
	if err != nil || !used {
		return false, err
	}
	seen.leaveOut(claim.Binding)
	_, err = h.counters.Revoke(ctx, job.pool.Name(), claim)
	return true, err
}
