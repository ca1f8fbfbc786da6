package gate_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/worker/simulation/gate"
)

// caller is a process whose calls the scheduler may see after a while.
type caller struct{ after time.Duration }

func (c caller) Dead() bool                                     { return false }
func (c caller) Admission(of *gate.Call, _ time.Time) time.Time { return of.Arrived.Add(c.after) }
func (c caller) Straight(*gate.Call, bool, bool) bool           { return true }

// TestInTurn: goroutines that are woken at the same time go on one after the other, in the order of their names.
func TestInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, woken := gate.New(), make(chan struct{})
		var went []string
		for _, name := range []string{"c", "a", "d", "b"} {
			go func() {
				<-woken
				g.InTurn(caller{}, name)
				went = append(went, name)
			}()
		}
		close(woken)
		for synctest.Wait(); g.Next(); {
			synctest.Wait()
		}
		if want := []string{"a", "b", "c", "d"}; !slices.Equal(went, want) {
			t.Errorf("%q went on, want %q", went, want)
		}
	})
}

// TestCallThatWasNeverSeen: if a caller stops waiting before the scheduler may see its call, the call is as if never made.
func TestCallThatWasNeverSeen(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]int{time.Second: 1, time.Minute: 0} {
		synctest.Test(t, func(t *testing.T) {
			g := gate.New()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			left, err := g.Pass(ctx, &gate.Call{By: caller{after}, Port: gate.Redis, Op: "assign"})
			if !left || err == nil {
				t.Errorf("left %t, %v", left, err)
			}
			if seen := g.Choices(time.Now().Add(time.Hour)); len(seen) != want {
				t.Errorf("admitted after %s: %d calls are seen, want %d", after, len(seen), want)
			}
		})
	}
}

// TestHeldAndCutOff: a held process's calls are not seen until its moments have passed, and an outage of one process is
// none of another.
func TestHeldAndCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, one, other := gate.New(), &caller{}, &caller{after: time.Nanosecond}
		g.GoesDown(one, gate.Redis, 2)
		if !g.IsDown(one, gate.Redis) || g.IsDown(one, gate.NATS) || g.IsDown(other, gate.Redis) || g.IsDown(nil, gate.Redis) {
			t.Error("one process alone is cut off, from one server alone")
		}
		g.Hold(one, 2)
		var answered atomic.Bool
		go func() {
			_, _ = g.Pass(t.Context(), &gate.Call{By: one, Port: gate.NATS, Op: "publish", Do: func() error { return nil }})
			answered.Store(true)
		}()
		synctest.Wait()
		g.Moment(1)
		if len(g.Choices(time.Now())) != 0 || answered.Load() {
			t.Error("a call of a held process is seen, or passes")
		}
		g.Moment(1)
		seen := g.Choices(time.Now())
		if len(seen) != 1 || g.Held(one) || g.IsDown(one, gate.Redis) {
			t.Fatalf("%d calls are seen after the hold", len(seen))
		}
		g.Release(seen[0], nil)
	})
}
