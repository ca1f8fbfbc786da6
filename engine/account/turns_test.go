package account_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Tenants take turns, each with its oldest runtime first.
func TestInTurn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		waiters string // runtime of tenant, in the order of their sequences
		turns   map[string]int64
		want    string
	}{
		{"one tenant: the oldest first", "1a 2a 3a", nil, "1a 2a 3a"},
		{"every tenant's first before any second", "1a 2a 3a 4b 5c", nil, "1a 4b 5c 2a 3a"},
		{"who was served last is last", "1a 2b 3c 4a", map[string]int64{"a": 90, "b": 80}, "3c 2b 1a 4a"},
		{"nobody", "", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var waiters []account.Waiter
			for i, name := range strings.Fields(c.waiters) {
				tenant := name[1:]
				waiters = append(waiters, account.Waiter{Runtime: name, Tenant: tenant, Sequence: int64(i + 1), Turn: c.turns[tenant]})
			}
			slices.Reverse(waiters) // whatever order they come in
			account.InTurn(waiters)
			var got []string
			for _, w := range waiters {
				got = append(got, w.Runtime)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("served in the order %v, want %s", got, c.want)
			}
		})
	}
}
