package worker

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/hap-worker/hap-worker/engine/account"
)

// epochs are those that pools are known to have. What a decision is given is what
// was known before the directory was asked: a pool that was rebuilt since refuses
// it, because the directory was rebuilt as well and may no longer say the same.
type epochs struct {
	mu    sync.Mutex
	pools atomic.Pointer[map[string]string] // replaced, never changed
}

// known is what is known now, and stays so.
func (e *epochs) known() map[string]string {
	if pools := e.pools.Load(); pools != nil {
		return *pools
	}
	return nil
}

// learn takes over what a decision on the pool has shown.
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

// locate finds the runtime's place, and the epoch that its pool had before that.
func (w *Worker) locate(ctx context.Context, runtime, pool string) (place account.Place, epoch string, err error) {
	for {
		known := w.epochs.known()
		place, err = w.counters.Locate(ctx, runtime, pool)
		if err != nil || place.Gone {
			return place, "", w.notBuilt(err, pool)
		}
		if epoch = known[place.Pool]; epoch != "" {
			return place, epoch, nil
		}
		status, err := w.counters.Status(ctx, place.Pool)
		if err == nil && !status.Built {
			err = account.ErrNotBuilt
		}
		if err != nil {
			return place, "", w.notBuilt(err, place.Pool)
		}
		w.epochs.learn(place.Pool, status.Epoch, nil)
		if err := ctx.Err(); err != nil {
			return place, "", context.Cause(ctx)
		}
	}
}

// locateFor is locate for a runtime on its way to a binding. Where nothing lies between
// directory and decision one script does both: then the pool is the one that it had when the
// directory was asked.
func (w *Worker) locateFor(ctx context.Context, job *search) (account.Place, error) {
	pool := job.pool.Name()
	if w.opts.Ranges == nil {
		decided, err := w.askForBinding(ctx, job, w.counters.LocateAndAssign)
		if err != nil {
			return account.Place{}, w.notBuilt(err, pool)
		}
		if decided.Outcome != "" {
			job.decided, job.request.Epoch = decided, decided.Epoch
			return account.Place{Pool: pool}, nil
		}
	}
	place, epoch, err := w.locate(ctx, job.runtime, pool)
	job.request.Epoch = epoch
	return place, err
}
