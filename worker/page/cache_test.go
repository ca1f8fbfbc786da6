package page

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowly returns a cache whose reads take this long, and the number of its reads.
func slowly(ctx context.Context, took time.Duration) (*cache, *atomic.Int32) {
	reads := new(atomic.Int32)
	return &cache{ctx: ctx, now: time.Now, read: func(ctx context.Context) *state {
		begun := time.Now()
		select {
		case <-time.After(took):
		case <-ctx.Done():
		}
		reads.Add(1)
		return &state{Taken: begun, Took: time.Since(begun)}
	}}, reads
}

// TestOneReadingServesAllViewers has fifty viewers that look four times a second.
func TestOneReadingServesAllViewers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, reads := slowly(t.Context(), 50*time.Millisecond)
		var viewers sync.WaitGroup
		for range 50 {
			viewers.Go(func() {
				for range 40 {
					if s := c.get(t.Context()); s == nil || time.Since(s.Taken) > 2*time.Second {
						t.Errorf("state %+v", s)
					}
					time.Sleep(250 * time.Millisecond)
				}
			})
		}
		viewers.Wait()
		if n := reads.Load(); n < 5 || n > 11 {
			t.Errorf("%d readings in ten seconds, want one a second", n)
		}
	})
}

func TestNothingIsReadWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, reads := slowly(t.Context(), time.Millisecond)
		c.get(t.Context())
		time.Sleep(time.Hour)
		if n := reads.Load(); n != 1 {
			t.Errorf("%d readings, want the one that somebody waited for", n)
		}
		if s := c.get(t.Context()); time.Since(s.Taken) > time.Second {
			t.Errorf("the state of %s ago was shown", time.Since(s.Taken))
		}
	})
}

// TestASlowReadingIsNotWaitedFor: during a slow read, a viewer gets the previous state. After it, the stores
// are left alone for some time.
func TestASlowReadingIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, reads := slowly(t.Context(), 2*time.Second)
		first := c.get(t.Context())
		time.Sleep(7 * time.Second) // less than four times as long as it took
		if again := c.get(t.Context()); again != first || reads.Load() != 1 {
			t.Errorf("%d readings, want one", reads.Load())
		}
		time.Sleep(2 * time.Second)
		begun := time.Now()
		if again := c.get(t.Context()); again != first || time.Since(begun) != patience {
			t.Errorf("a viewer waited %s", time.Since(begun))
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if again := c.get(t.Context()); again == first || reads.Load() != 2 {
			t.Errorf("%d readings, want the new one", reads.Load())
		}
	})
}

// TestAReadingThatHangs: the read ends at its time limit, and a state that is too old is not shown.
func TestAReadingThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := atomic.Bool{}
		c := &cache{ctx: t.Context(), now: time.Now}
		c.read = func(ctx context.Context) *state {
			if hangs.Load() {
				<-ctx.Done()
				time.Sleep(time.Minute) // and does not heed it
			}
			return &state{Taken: time.Now()}
		}
		c.get(t.Context())
		hangs.Store(true)
		time.Sleep(40 * time.Second)
		begun := time.Now()
		if s := c.get(t.Context()); s != nil || time.Since(begun) != readWithin {
			t.Errorf("after %s: %+v", time.Since(begun), s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if s := c.get(ctx); s != nil {
			t.Errorf("a viewer that is gone got %+v", s)
		}
		time.Sleep(2 * time.Minute)
	})
}
