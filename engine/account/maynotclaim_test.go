package account_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
)

// TestMayNotClaim: a request waits for its tenant's own account only if the tenant may have no other one.
func TestMayNotClaim(t *testing.T) {
	t.Parallel()
	barred := account.Decision{Outcome: account.Waiting, Considered: []account.Considered{
		{Binding: "a", Clusters: 2, Verdict: account.AtLimit}, {Binding: "b", Clusters: 1, Verdict: account.BarredHere},
	}}
	idle := account.Decision{Outcome: account.Waiting, Considered: []account.Considered{{Binding: "b", Verdict: account.BarredHere}}}
	refused := barred
	refused.Outcome = account.Refused
	for _, c := range []struct {
		name     string
		decision account.Decision
		terms    account.Terms
		want     bool
	}{
		{"one account, in use", barred, account.Terms{}, true},
		{"several accounts", barred, account.Terms{Several: true, Limit: 2}, false},
		{"one account, without clusters", idle, account.Terms{}, false},
		{"it does not wait", refused, account.Terms{}, false},
	} {
		if got := c.decision.MayNotClaim(c.terms); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
