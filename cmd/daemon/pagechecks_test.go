package daemon

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestAnswering checks that many viewers cost one request per period, and that each gets the last
// answer.
func TestAnswering(t *testing.T) {
	t.Parallel()
	now, asked, fails := time.Unix(100, 0), 0, errors.New("no route")
	a := &answering{now: func() time.Time { return now }, ask: func(context.Context) error { asked++; return fails }}
	for range 3 {
		if err := a.check(t.Context()); !errors.Is(err, fails) {
			t.Errorf("the check says %v", err)
		}
	}
	fails = nil
	if err := a.check(t.Context()); err == nil || asked != 1 {
		t.Errorf("asked %d times within %s, %v", asked, answeringEvery, err)
	}
	now = now.Add(answeringEvery)
	if err := a.check(t.Context()); err != nil || asked != 2 {
		t.Errorf("asked %d times after %s, %v", asked, answeringEvery, err)
	}
}
