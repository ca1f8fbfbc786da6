package gardener

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
)

// A write that always conflicts is repeated with pauses, and its error is returned in the end, also if the end
// comes during a read.
func TestRewrite(t *testing.T) {
	t.Parallel()
	for _, within := range []string{"a pause", "a read"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			writes := 0
			err := rewrite(ctx, func() (bool, error) {
				if within == "a read" && writes == 5 {
					<-ctx.Done()
				}
				return false, ctx.Err()
			}, func() error {
				if writes++; writes > 1000 {
					t.Fatal("it writes without a pause")
				}
				return engine.ErrConflict
			})
			if !errors.Is(err, engine.ErrConflict) || writes > 30 {
				t.Errorf("it ends within %s after %d writes with %v", within, writes, err)
			}
		})
	}
}
