package worker

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/hap-worker/hap-worker/engine/account"
)

// epochs caches the epochs of pools. Assign gets the epoch that was known before the directory was read. If
// the pool was rebuilt since then, Assign fails: the directory may have been rebuilt too, and may now have
// another place for the runtime.
type epochs struct {
	mu    sync.Mutex
	pools atomic.Pointer[map[string]string] // copy on write
}

// known returns the cached epochs by pool. The map is never changed.
func (e *epochs) known() map[string]string {
	if pools := e.pools.Load(); pools != nil {
		return *pools
	}
	return nil
}

// learn stores the epoch that a script on the pool returned. If err says that the pool was lost or rebuilt,
// learn drops the stored epoch.
func (e *epochs) learn(pool, epoch string, err error) {
	switch {
	case errors.Is(err, account.ErrRebuilt), errors.Is(err, account.ErrNotBuilt):
		epoch = ""
	case epoch == "":
		return
	}
	if e.known()[pool] == epoch {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	pools := maps.Clone(e.known())
	if pools == nil {
		pools = map[string]string{}
	}
	pools[pool] = epoch
	e.pools.Store(&pools)
}

// locate returns the runtime's place (if it had none: pool), and the epoch that was known before the lookup
// for the place's pool. If the place is Gone, the epoch is "".
func (h *Handler) locate(ctx context.Context, runtime, pool string) (place account.Place, epoch string, err error) {
	for {
		known := h.epochs.known()
		place, err = h.counters.Locate(ctx, runtime, pool)
		if err != nil || place.Gone {
			return place, "", h.notBuilt(err, pool)
		}
		if epoch = known[place.Pool]; epoch != "" {
			return place, epoch, nil
		}
		status, err := h.counters.Status(ctx, place.Pool)
		if err == nil && !status.Built {
			err = account.ErrNotBuilt
		}
		if err != nil {
			return place, "", h.notBuilt(err, place.Pool)
		}
		h.epochs.learn(place.Pool, status.Epoch, nil)
		if err := ctx.Err(); err != nil {
			return place, "", context.Cause(ctx)
		}
	}
}
