package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// What took one request's time is no reason to keep the others waiting; what
// concerns all of them ends the round.
func TestSlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		slow bool
	}{
		{"nothing", nil, false},
		{"Gardener does not serve", fmt.Errorf("claim: %w", engine.ErrUnavailable), true},
		{"its time is up", fmt.Errorf("read: %w", context.DeadlineExceeded), true},
		{"the worker stops", context.Canceled, false},
		{"the pool is not built", account.ErrNotBuilt, false},
		{"the pool was rebuilt", account.ErrRebuilt, false},
		{"a lost connection", errors.New("broken pipe"), false},
	} {
		if got := slow(c.err); got != c.slow {
			t.Errorf("%s: %t, want %t", c.name, got, c.slow)
		}
	}
}
