package loop

import (
	"testing"
	"testing/synctest"
	"time"
)

// What comes while a turn runs may have been missed by it: the next turn is due at once.
func TestPaceEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p Pace
		turn := func(during func()) {
			time.Sleep(time.Second) // virtual
			begin := time.Now()
			time.Sleep(100 * time.Millisecond) // virtual
			during()
			p.Rest(begin)
		}
		turn(func() {})
		if p.Due() {
			t.Error("no rest")
		}
		if p.End(); !p.Due() {
			t.Error("the rest goes on")
		}
		if turn(p.End); !p.Due() {
			t.Error("a rest follows a turn that may have missed something")
		}
		if turn(func() {}); p.Due() {
			t.Error("no rest after the turn that follows")
		}
	})
}

func TestPace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		took, rest time.Duration
	}{
		{"nothing", 0, 0},
		{"little", time.Millisecond, 500 * time.Millisecond},
		{"long", 100 * time.Millisecond, 50 * time.Second},
		{"too long", time.Hour, 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var p Pace
				if !p.Due() {
					t.Error("the first turn is not due")
				}
				begin := time.Now()
				time.Sleep(c.took) // virtual
				p.Rest(begin)
				if time.Sleep(c.rest - time.Nanosecond); c.rest > 0 && p.Due() {
					t.Errorf("due before %s", c.rest)
				}
				if time.Sleep(time.Nanosecond); !p.Due() {
					t.Errorf("not due after %s", c.rest)
				}
			})
		})
	}
}
