package rebuild_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/rebuild"
)

// lost is a Redis that has lost everything and must not be written to.
type lost struct {
	rebuild.Builder
	t *testing.T
}

func (l lost) Epochs(context.Context, ...string) (account.Epochs, error) { return nil, nil }

func (l lost) BeginRebuild(context.Context, string, string, time.Time, time.Duration) (bool, error) {
	l.t.Error("a token is written")
	return false, nil
}

// lostRanges has lost the network ranges.
type lostRanges struct {
	rebuild.RangeBuilder
	t *testing.T
}

func (l lostRanges) Epoch(context.Context) (string, error) { return "", nil }

func (l lostRanges) BeginRebuild(context.Context, string, time.Time, time.Duration) (bool, error) {
	l.t.Error("a token of the network ranges is written")
	return false, nil
}

// whole is a Redis that has all pools, and no network ranges.
type whole struct{ rebuild.Builder }

func (whole) Epochs(_ context.Context, places ...string) (account.Epochs, error) {
	epochs := account.Epochs{}
	for _, place := range places {
		epochs[place] = "e1"
	}
	return epochs, nil
}

// noPools is a Gardener without bindings.
type noPools struct{ rebuild.Inventory }

func (noPools) Pools() []engine.Pool { return nil }

// TestRebuildOfAnotherLandscape: a Redis of another landscape is not rebuilt, whether it lacks pools or
// network ranges. The observer is told once.
func TestRebuildOfAnotherLandscape(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*rebuild.Rebuilder{
		"pools":          {Builder: lost{t: t}},
		"network ranges": {Builder: whole{}, Ranges: lostRanges{t: t}, Networks: func() *network.Config { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := 0
			r.Inventory = noPools{}
			r.Belongs = func(context.Context) error { return &engine.ForeignError{} }
			r.Observer.OnRebuild = func(_ context.Context, i observe.Rebuild) {
				if _, foreign := errors.AsType[*engine.ForeignError](i.Err); foreign {
					told++
				}
			}
			if _, foreign := errors.AsType[*engine.ForeignError](r.Ensure(t.Context())); !foreign || told != 1 {
				t.Errorf("told %d times", told)
			}
		})
	}
}

// TestRebuildWaitsForTheLandscape: while the landscape of Redis cannot be determined, the rebuild is retried
// and writes nothing.
func TestRebuildWaitsForTheLandscape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		asked := 0
		r := &rebuild.Rebuilder{Builder: lost{t: t}, Inventory: noPools{}, Belongs: func(context.Context) error {
			asked++
			return engine.ErrUnavailable
		}}
		if err := r.Ensure(ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, engine.ErrUnavailable) || asked < 10 {
			t.Errorf("asked %d times, ended with %v", asked, err)
		}
	})
}
