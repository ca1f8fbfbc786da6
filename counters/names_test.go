package counters_test

import (
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestHintsOfArguments: no label or annotation leads to an argument that is refused, but a reply or a record may. A
// token is the program's.
func TestHintsOfArguments(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), counterstest.NewMachine(counterstest.Mini(t), "")
	build(t, m, "p", "e1", account.Snapshot{})
	_, name := m.Assign(ctx, "p", account.Request{Runtime: "r 1", Request: "q1", Tenant: "ga-1"})
	_, number := m.Observe(ctx, "p", account.Label{Binding: "a", Generation: -1})
	_, token := m.Install(ctx, "p", "e 2", account.Snapshot{})
	for _, c := range []struct {
		err  error
		ends string
	}{
		{name, `name "r 1" has the byte 0x20; look for a reply in the ledger or a record in Redis that was written by hand`},
		{number, "number -1 is not between 0 and 9007199254740990; look for a reply in the ledger or a record in Redis that was written by hand"},
		{token, `rebuild token "e 2" is not of [A-Za-z0-9_-]`},
	} {
		if c.err == nil || !strings.HasSuffix(c.err.Error(), c.ends) {
			t.Errorf("%v\nshould end with\n%s", c.err, c.ends)
		}
	}
}
