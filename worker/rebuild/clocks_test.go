package rebuild

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// slow is a Gardener whose List takes a while.
type slow struct {
	emptyInventory

	takes time.Duration
}

func (s slow) List(ctx context.Context, f func(engine.Binding) error) error {
	time.Sleep(s.takes) // virtual
	return s.emptyInventory.List(ctx, f)
}

// TestClocksOfWorkersDiffer: a worker whose clock differs by more than the lease does not take over a running
// rebuild, and reports the offset of its clock.
func TestClocksOfWorkersDiffer(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 13 * time.Second, time.Minute, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			newRebuilder, _ := fenced(t)
			redis := memory.NewCounters()
			begin := time.Now()
			tokens, offsets := make(chan struct{}, 100), make(chan time.Duration, 100)
			ended := make(chan error, 2)
			for late, skew := range map[time.Duration]time.Duration{0: 0, time.Second: ahead} {
				r := newRebuilder(redis)
				r.Inventory = slow{takes: 15 * time.Second}
				r.Now = func() time.Time { return time.Now().Add(skew) }
				r.Observer.OnStep = func(_ context.Context, s observe.Step) {
					if s == observe.StepToken {
						tokens <- struct{}{}
					}
				}
				r.Observer.OnClock = func(_ context.Context, c observe.Clock) {
					if c.Store == "redis" && skew != 0 {
						offsets <- c.Offset
					}
				}
				go func() {
					time.Sleep(late) // virtual; the second worker starts during the rebuild
					ended <- r.Ensure(t.Context())
				}()
			}
			for range 2 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(begin); took > 20*time.Second || len(tokens) != 1 {
				t.Errorf("clocks %s apart: over after %s, with %d rebuilds begun", ahead, took, len(tokens))
			}
			if ahead != 0 && <-offsets != -ahead {
				t.Errorf("clocks %s apart: that is not told", ahead)
			}
		})
	}
}
