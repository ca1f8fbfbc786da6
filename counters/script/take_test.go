package script

import (
	"context"
	"testing"
)

// TestLaneTakesPastThoseWhoGaveUp: many ended calls in the queue do not hide a call that still waits.
func TestLaneTakesPastThoseWhoGaveUp(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	l := &lane{wake: make(chan struct{}, 1)}
	for range mostAtOnce + 10 {
		l.add(&laneCall{ctx: gone})
	}
	for range mostAtOnce + 1 {
		l.add(&laneCall{ctx: t.Context()})
	}
	for _, want := range []int{mostAtOnce, 1, 0} {
		if got := len(l.take()); got != want {
			t.Errorf("%d calls are taken, want %d", got, want)
		}
	}
}
