package memory

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
)

// Ranges store network blocks in a network.Space, like package blocks in Redis. They are safe for concurrent
// use; each call is atomic. Errors: account.ErrNotBuilt, the error of an ended context, and those of
// network.Space.
type Ranges struct {
	mu    sync.Mutex
	epoch *account.Bucket // empty; stores the epoch and the token of a rebuild
	space *network.Space
}

// NewRanges returns ranges that are not built.
func NewRanges() *Ranges { return &Ranges{epoch: account.NewBucket(), space: network.NewSpace()} }

// Lose deletes everything, like an empty Redis.
func (r *Ranges) Lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch, r.space = account.NewBucket(), network.NewSpace()
}

// rangesStep calls f under the lock. If the ranges are not built, it returns account.ErrNotBuilt instead.
func rangesStep[T any](ctx context.Context, r *Ranges, f func(*network.Space) (T, error)) (none T, err error) {
	if err := ctx.Err(); err != nil {
		return none, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.epoch.Status().Built {
		return none, account.ErrNotBuilt
	}
	return f(r.space)
}

// Acquire applies rules to a cluster in the name of a request, all or none.
func (r *Ranges) Acquire(ctx context.Context, cluster, request string, rules []network.Rule) (network.Acquired, error) {
	return rangesStep(ctx, r, func(s *network.Space) (network.Acquired, error) { return s.Acquire(cluster, request, rules) })
}

// Return ends the hold of a request with all its attempts, or of one network.Attempt. It frees the blocks on
// which no other request or attempt relies. An empty request is an error.
func (r *Ranges) Return(ctx context.Context, cluster, request string) (network.Returned, error) {
	if request == "" {
		return network.Returned{}, &engine.Error{Code: engine.CodeInternal, Err: fmt.Errorf("no request is named that holds the blocks of cluster %s", cluster)}
	}
	return rangesStep(ctx, r, func(s *network.Space) (network.Returned, error) { return s.Return(cluster, request), nil })
}

// Release frees all blocks of a cluster, and returns the rules that it had; nil for none.
func (r *Ranges) Release(ctx context.Context, cluster string) ([]network.Applied, error) {
	return rangesStep(ctx, r, func(s *network.Space) ([]network.Applied, error) { return s.Release(cluster), nil })
}

// Applied returns the rules of a cluster with their blocks.
func (r *Ranges) Applied(ctx context.Context, cluster string) ([]network.Applied, error) {
	return rangesStep(ctx, r, func(s *network.Space) ([]network.Applied, error) { return s.Applied(cluster), nil })
}

// SetParents replaces the parents, the ranges from which blocks are sliced. The next Acquire uses them.
func (r *Ranges) SetParents(ctx context.Context, parents []network.Parent) error {
	return r.change(ctx, func(s *network.Space) { s.SetParents(parents) })
}

// Block excludes blocks of other allocators from being allotted.
func (r *Ranges) Block(ctx context.Context, foreign ...netip.Prefix) error {
	return r.change(ctx, func(s *network.Space) {
		for _, p := range foreign {
			s.Block(p)
		}
	})
}

// Unblock ends the exclusion of these blocks by Block.
func (r *Ranges) Unblock(ctx context.Context, foreign ...netip.Prefix) error {
	return r.change(ctx, func(s *network.Space) {
		for _, p := range foreign {
			s.Unblock(p)
		}
	})
}

func (r *Ranges) change(ctx context.Context, f func(*network.Space)) error {
	_, err := rangesStep(ctx, r, func(s *network.Space) (any, error) { f(s); return nil, nil })
	return err
}

// Restore puts a record back, and reports whether it did. It does nothing if the record's rule is applied to the
// cluster already.
func (r *Ranges) Restore(ctx context.Context, record network.Record) (bool, error) {
	return rangesStep(ctx, r, func(s *network.Space) (bool, error) {
		for _, applied := range s.Applied(record.Cluster) {
			if applied.Rule == record.Rule {
				return false, nil
			}
		}
		s.Restore(record)
		return true, nil
	})
}

// State returns the whole state of the ranges, which Install accepts.
func (r *Ranges) State(ctx context.Context) (network.State, error) {
	return rangesStep(ctx, r, func(s *network.Space) (network.State, error) { return s.Snapshot(), nil })
}

// Built reports whether the ranges are built.
func (r *Ranges) Built(ctx context.Context) (bool, error) {
	_, err := r.State(ctx)
	if errors.Is(err, account.ErrNotBuilt) {
		return false, nil
	}
	return err == nil, err
}

// BeginRebuild writes the token, unless the ranges are built, or another token was written or renewed since the
// last Restart and less than lease ago. It reports whether the token is there now.
func (r *Ranges) BeginRebuild(ctx context.Context, token string, now time.Time, lease time.Duration) (bool, error) {
	return r.rebuild(ctx, func() bool { return r.epoch.BeginRebuild(token, now, lease) })
}

// RenewRebuild renews the lease of the token as of now, and reports whether the token is still there.
func (r *Ranges) RenewRebuild(ctx context.Context, token string, now time.Time) (bool, error) {
	return r.rebuild(ctx, func() bool { return r.epoch.RenewRebuild(token, now) })
}

// Install builds the ranges from a state if they are not built and the token is still there. It reports whether
// the ranges are built by this token, also for a repeated call.
func (r *Ranges) Install(ctx context.Context, token string, state network.State) (bool, error) {
	return r.rebuild(ctx, func() bool {
		before := r.epoch.Status().Built
		installed := r.epoch.Install(token, account.Directory{})
		if installed && !before {
			r.space = network.Build(state)
		}
		return installed
	})
}

// Discard removes the epoch, like a rebuild that an operator requests, and reports whether the ranges were built.
func (r *Ranges) Discard(ctx context.Context) (bool, error) {
	return r.rebuild(ctx, func() bool { return r.epoch.Discard() })
}

// Epoch returns the epoch with which the ranges are built, or "" if they are not built.
func (r *Ranges) Epoch(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch.Status().Epoch, nil
}

// Depose removes the epoch of the ranges if it still is epoch, and reports whether it did.
func (r *Ranges) Depose(ctx context.Context, epoch string) (bool, error) {
	return r.rebuild(ctx, func() bool { return r.epoch.Depose(epoch) })
}

func (r *Ranges) rebuild(ctx context.Context, f func() bool) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return f(), nil
}

// Restart models a restart of Redis: the ranges are not built, and a rebuild that began before cannot install.
func (r *Ranges) Restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch.Restart()
}

// Copy returns an independent copy.
func (r *Ranges) Copy() *Ranges {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Ranges{epoch: r.epoch.Clone(), space: network.Build(r.space.Snapshot())}
}
