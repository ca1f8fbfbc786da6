package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/serving"
)

// An error of one request does not stop the round; an error that concerns the whole pool does.
func TestFaultOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want serving.Fault
	}{
		{"nothing", nil, serving.None},
		{"Gardener does not serve", fmt.Errorf("claim: %w", engine.ErrUnavailable), serving.Slow},
		{"Gardener refuses to label one account", fmt.Errorf("claim: %w", engine.ErrRefused), serving.Other},
		{"its time is up", fmt.Errorf("read: %w", context.DeadlineExceeded), serving.Slow},
		{"the worker stops", context.Canceled, serving.Other},
		{"the pool is not built", account.ErrNotBuilt, serving.Rebuilding},
		{"the pool was rebuilt", account.ErrRebuilt, serving.Rebuilding},
		{"a lost connection", errors.New("broken pipe"), serving.Other},
		{"an answer that cannot be stored", fmt.Errorf("publish: %w", storage.ErrUnstorable), serving.OwnDoing},
	} {
		if got := faultOf(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
