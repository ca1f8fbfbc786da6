package account_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestLimitIn holds that a limit is stated only where an assignment keeps it.
func TestLimitIn(t *testing.T) {
	t.Parallel()
	dedicated, shared := engine.Pool{HyperscalerType: "aws", EUAccess: true}, engine.Pool{HyperscalerType: "aws", Shared: true}
	several, one := account.Terms{Several: true, Limit: 3}, account.Terms{Limit: 3}
	for _, test := range []struct {
		name  string
		terms account.Terms
		pool  engine.Pool
		want  int
	}{
		{"several dedicated accounts", several, dedicated, 3},
		{"shared accounts", several, shared, 0},
		{"one account", one, dedicated, 0},
		{"several without a limit", account.Terms{Several: true}, dedicated, 0},
	} {
		if got := test.terms.LimitIn(test.pool); got != test.want {
			t.Errorf("%s: the limit is %d, want %d", test.name, got, test.want)
		}
	}
}
