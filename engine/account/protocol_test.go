package account_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
)

// TestAskForRebuild: a rebuild is wanted exactly if the pool is not built, however the error is wrapped. The
// error is returned unchanged.
func TestAskForRebuild(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err   error
		asked []string
	}{
		{nil, nil},
		{errors.New("broken pipe"), nil},
		{account.ErrNotBuilt, []string{"aws"}},
		{fmt.Errorf("assign: %w", account.ErrNotBuilt), []string{"aws"}},
		{account.ErrNotInForce, []string{"aws"}},
	} {
		var asked rebuilds
		err := account.AskForRebuild(c.err, &asked, "aws")
		if err != c.err || !slices.Equal(asked, c.asked) { //nolint:errorlint // the very same
			t.Errorf("%v: returns %v and asks for %v, want %v", c.err, err, asked, c.asked)
		}
	}
}

// rebuilds are the pools of requested rebuilds.
type rebuilds []string

func (r *rebuilds) Wanted(pool string) { *r = append(*r, pool) }
