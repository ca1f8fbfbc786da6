package rebuild

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/memory"
)

// moving is a Redis whose named calls fail once, as while a cluster moves a slot.
type moving struct {
	servers
	fails map[string]bool // by the name of the call
}

var errMoves = errors.New("TRYAGAIN Multiple keys request during rehashing of slot")

func (m moving) once(call string) error {
	if m.fails[call] {
		delete(m.fails, call)
		return errMoves
	}
	return nil
}

func (m moving) Depose(ctx context.Context, place, epoch string) (bool, error) {
	if err := m.once("depose"); err != nil {
		return false, err
	}
	return m.servers.Depose(ctx, place, epoch)
}

// BeginRebuild writes the token even if it returns an error.
func (m moving) BeginRebuild(ctx context.Context, place, token string, now time.Time, lease time.Duration) (bool, error) {
	mine, err := m.servers.BeginRebuild(ctx, place, token, now, lease)
	return mine, errors.Join(err, m.once("begin"))
}

func (m moving) Install(ctx context.Context, pool, token string, s account.Snapshot) (bool, error) {
	if err := m.once("install"); err != nil {
		return false, err
	}
	return m.servers.Install(ctx, pool, token, s)
}

func (m moving) RenewRebuild(ctx context.Context, place, token string, now time.Time) (bool, error) {
	if err := m.once("renew"); err != nil {
		return false, err
	}
	return m.servers.RenewRebuild(ctx, place, token, now)
}

// TestFailedRebuildIsNotWaitedFor: a rebuild that fails after it has written tokens can be repeated at once,
// by this worker or another one, without waiting for the end of their lease.
func TestFailedRebuildIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"depose", "begin", "install"} {
		for _, by := range []string{"the same worker", "another worker"} {
			t.Run(call+" fails, "+by, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					newRebuilder, record := fenced(t)
					redis := moving{servers{memory.NewCounters()}, map[string]bool{}}
					first := newRebuilder(redis)
					if err := first.Ensure(t.Context()); err != nil {
						t.Fatal(err)
					}
					// A bucket of the directory is lost, so all other places are deposed and rebuilt too.
					if _, err := redis.Discard(t.Context(), account.BucketName(0)); err != nil {
						t.Fatal(err)
					}
					redis.fails[call] = true
					if by == "the same worker" {
						redis.fails["renew"] = true // so giveUp fails at first too
					}
					if err := first.attempt(t.Context()); !errors.Is(err, errMoves) {
						t.Fatalf("the attempt ends with %v", err)
					}
					next, begin := first, time.Now()
					if by == "another worker" {
						next = newRebuilder(redis)
					}
					if err := next.Ensure(t.Context()); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(begin); took >= time.Second {
						t.Errorf("built %s after an attempt that failed", took)
					}
					if epoch, inForce := epochOf(t, redis, record); epoch == "" || epoch != inForce {
						t.Errorf("built as %q, in force is %q", epoch, inForce)
					}
				})
			})
		}
	}
}

// movingRanges are network ranges whose install fails once.
type movingRanges struct {
	*memory.Ranges
	fails map[string]bool
}

func (m movingRanges) Install(ctx context.Context, token string, state network.State) (bool, error) {
	if err := (moving{fails: m.fails}).once("install"); err != nil {
		return false, err
	}
	return m.Ranges.Install(ctx, token, state)
}

// TestFailedRangesAreNotWaitedFor is TestFailedRebuildIsNotWaitedFor for the network ranges.
func TestFailedRangesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, _ := fenced(t)
		r := newRebuilder(servers{memory.NewCounters()})
		r.Ranges, r.Networks = movingRanges{memory.NewRanges(), map[string]bool{"install": true}}, always(nil)
		if err := r.attempt(t.Context()); !errors.Is(err, errMoves) {
			t.Fatalf("the attempt ends with %v", err)
		}
		begin := time.Now()
		if err := r.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took >= time.Second {
			t.Errorf("built %s after an attempt that failed", took)
		}
	})
}

// crowd is a Redis whose BeginRebuild blocks until held is closed.
type crowd struct {
	servers
	held chan struct{}
	now  atomic.Int32 // blocked calls
}

func (c *crowd) BeginRebuild(ctx context.Context, place, token string, now time.Time, lease time.Duration) (bool, error) {
	c.now.Add(1)
	defer c.now.Add(-1)
	<-c.held
	return c.servers.BeginRebuild(ctx, place, token, now, lease)
}

// TestAttemptsAreOneAtATime: concurrent calls of Ensure make one attempt at a time. A call that waits for its
// turn ends with its context.
func TestAttemptsAreOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, _ := fenced(t)
		redis := &crowd{servers: servers{memory.NewCounters()}, held: make(chan struct{})}
		r := newRebuilder(redis)
		var running sync.WaitGroup
		for range 3 {
			running.Go(func() {
				if err := r.Ensure(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := redis.now.Load(); n != 1 {
			t.Errorf("%d attempts at once", n)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		if err := r.attempt(ctx); !errors.Is(err, enough) {
			t.Errorf("who waits for a turn: %v", err)
		}
		close(redis.held)
		running.Wait()
	})
}
