package rebuild

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/memory"
)

// far is a Redis with latency.
type far struct {
	servers
	random *rand.Rand
	mu     *sync.Mutex
}

// within returns a duration below most.
func (f far) within(most time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.random.Int64N(int64(most)))
}

func (f far) travel() { time.Sleep(f.within(5 * time.Millisecond)) }

func (f far) Epochs(ctx context.Context, places ...string) (account.Epochs, error) {
	f.travel()
	defer f.travel()
	return f.servers.Epochs(ctx, places...)
}

func (f far) BeginRebuild(ctx context.Context, place, token string, now time.Time, lease time.Duration) (bool, error) {
	f.travel()
	defer f.travel()
	return f.servers.BeginRebuild(ctx, place, token, now, lease)
}

func (f far) Depose(ctx context.Context, place, epoch string) (bool, error) {
	f.travel()
	defer f.travel()
	return f.servers.Depose(ctx, place, epoch)
}

// TestTwoRebuildAtOnce: two workers that rebuild the same places at the same time take about as long as one.
func TestTwoRebuildAtOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			newRebuilder, record := fenced(t)
			record.replicas = 3
			redis := far{servers{memory.NewCounters()}, rand.New(rand.NewPCG(seed, 0)), &sync.Mutex{}}
			record.write = func(write func() (uint64, error)) (uint64, error) {
				redis.travel()
				defer redis.travel()
				return write()
			}
			both := []*Rebuilder{newRebuilder(redis), newRebuilder(redis)}
			ensure := func() time.Duration {
				begin := time.Now()
				var ended sync.WaitGroup
				for _, r := range both {
					later := redis.within(300 * time.Millisecond)
					ended.Go(func() {
						time.Sleep(later)
						r.Wanted("aws")
						if err := r.Ensure(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				ended.Wait()
				return time.Since(begin)
			}
			first := ensure()
			if err := redis.Lose(t.Context()); err != nil {
				t.Fatal(err)
			}
			again := ensure()
			if again > outlastTime+5*time.Second || first > 5*time.Second {
				t.Errorf("seed %d: built after %s, and built again after %s", seed, first, again)
			}
			if epoch, inForce := epochOf(t, redis, record); epoch == "" || epoch != inForce {
				t.Errorf("seed %d: built as %q, in force is %q", seed, epoch, inForce)
			}
		})
	}
}
