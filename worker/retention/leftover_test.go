package retention

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Without network ranges, the blocks of a runtime that is forgotten are freed first, as they may be left from a time
// when there were some. If that fails, its replies stay for the next pass.
func TestRetentionFreesBlocksThatAreLeft(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for _, c := range []struct {
		err    error
		purged int
	}{{nil, 1}, {account.ErrNotBuilt, 1}, {down, 0}} {
		synctest.Test(t, func(t *testing.T) {
			x := newRetained(t)
			var freed []string
			x.r.Blocks = nil
			x.r.Leftover = func(_ context.Context, runtime string) error {
				if len(x.ledger.statuses(runtime)) == 0 {
					t.Error("its replies are gone by then")
				}
				freed = append(freed, runtime)
				return c.err
			}
			x.assign("anchor", "aws")
			x.lived("old", kept+time.Hour)
			x.lived("young", kept-time.Hour)
			x.r.Once(t.Context())
			last := x.passes[len(x.passes)-1]
			if !slices.Equal(freed, []string{"old"}) || last.Purged != c.purged || !errors.Is(last.Err, c.err) && errors.Is(c.err, down) {
				t.Errorf("%v: freed %v, pass %+v", c.err, freed, last)
			}
			if left := len(x.ledger.statuses("old")) > 0; left != (c.purged == 0) {
				t.Errorf("%v: replies are left: %t", c.err, left)
			}
		})
	}
}
