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

// Ranges keep network blocks: network.Space, as package counters keeps it in Redis.
// They are safe for concurrent use; each call is one step. Errors: account.ErrNotBuilt,
// and that of an ended context.
type Ranges struct {
	mu    sync.Mutex
	epoch *account.Bucket // with nothing in it: whether the space is built, and who rebuilds it
	space *network.Space
}

// NewRanges returns ranges that are not built.
func NewRanges() *Ranges { return &Ranges{epoch: account.NewBucket(), space: network.NewSpace()} }

// Lose forgets everything, as a Redis does that is started empty.
func (r *Ranges) Lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch, r.space = account.NewBucket(), network.NewSpace()
}

// rangesStep is one step on ranges that are built.
func rangesStep[T any](ctx context.Context, r *Ranges, f func(*network.Space) (T, error)) (none T, err error) {
	if err := ctx.Err(); err != nil {
		return none, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := unlessBuilt(r.epoch); err != nil {
		return none, err
	}
	return f(r.space)
}

// Acquire applies rules to a cluster on behalf of a request, all or none.
func (r *Ranges) Acquire(ctx context.Context, cluster, request string, rules []network.Rule) (network.Acquired, error) {
	return rangesStep(ctx, r, func(s *network.Space) (network.Acquired, error) { return s.Acquire(cluster, request, rules) })
}

// Return takes back what a request alone relied on.
func (r *Ranges) Return(ctx context.Context, cluster, request string) (network.Returned, error) {
	if request == "" {
		return network.Returned{}, &engine.Error{Code: engine.CodeInternal, Err: fmt.Errorf("no request is named that holds the blocks of cluster %s", cluster)}
	}
	return rangesStep(ctx, r, func(s *network.Space) (network.Returned, error) { return s.Return(cluster, request), nil })
}

// Release frees all that a cluster has.
func (r *Ranges) Release(ctx context.Context, cluster string) ([]network.Applied, error) {
	return rangesStep(ctx, r, func(s *network.Space) ([]network.Applied, error) { return s.Release(cluster), nil })
}

// Applied returns what a cluster has.
func (r *Ranges) Applied(ctx context.Context, cluster string) ([]network.Applied, error) {
	return rangesStep(ctx, r, func(s *network.Space) ([]network.Applied, error) { return s.Applied(cluster), nil })
}

// SetParents makes these the parents from the next Acquire on.
func (r *Ranges) SetParents(ctx context.Context, parents []network.Parent) error {
	return r.change(ctx, func(s *network.Space) { s.SetParents(parents) })
}

// Block keeps blocks of other allocators from being allotted.
func (r *Ranges) Block(ctx context.Context, foreign ...netip.Prefix) error {
	return r.change(ctx, func(s *network.Space) {
		for _, p := range foreign {
			s.Block(p)
		}
	})
}

// Unblock is the end of Block.
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

// Restore puts a record back, and reports whether the cluster was without that rule.
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

// State returns all that the ranges can be built from.
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

// BeginRebuild claims the rebuild, as [Counters.BeginRebuild] does.
func (r *Ranges) BeginRebuild(ctx context.Context, token string, now time.Time, lease time.Duration) (bool, error) {
	return r.rebuild(ctx, func() bool { return r.epoch.BeginRebuild(token, now, lease) })
}

// RenewRebuild extends its lease.
func (r *Ranges) RenewRebuild(ctx context.Context, token string, now time.Time) (bool, error) {
	return r.rebuild(ctx, func() bool { return r.epoch.RenewRebuild(token, now) })
}

// Install builds the ranges of a state if they are not built and the token still stands.
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

// Discard takes the epoch away, as a restart of Redis does.
func (r *Ranges) Discard(ctx context.Context) (bool, error) {
	return r.rebuild(ctx, func() bool { return r.epoch.Discard() })
}

// Epoch returns the epoch that the ranges are built with, "" where they are not.
func (r *Ranges) Epoch(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch.Status().Epoch, nil
}

// Depose takes the epoch away, if it still is this one.
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

// Copy returns ranges with the same content that go their own way. A rebuild that has
// begun is not in it.
func (r *Ranges) Copy() *Ranges {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Ranges{epoch: copyBucket(r.epoch), space: network.Build(r.space.Snapshot())}
}
