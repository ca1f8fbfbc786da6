package counters_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestQueueIsReadInPages: a long queue is read by several short scripts, and each runtime of it comes once, in turn.
func TestQueueIsReadInPages(t *testing.T) {
	t.Parallel()
	for name, client := range servers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := counterstest.NewMachine(client, "")
			runtimes := map[string]account.Runtime{}
			s := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: maps.All(runtimes)}
			var want []account.Waiter
			for n := range 2500 {
				w := account.Waiter{Runtime: fmt.Sprintf("rt-%d", n), Request: fmt.Sprintf("q-%d", n), Tenant: fmt.Sprintf("ga-%d", n%7), Sequence: int64(n + 1)}
				runtimes[w.Runtime] = account.Runtime{State: account.RuntimeWaiting, Sequence: w.Sequence, Request: w.Request, Tenant: w.Tenant}
				want = append(want, w)
			}
			build(t, m, "p", "e1", s)
			scripts := 0
			m.OnCall(func(context.Context, string, time.Duration) { scripts++ })
			got, err := m.Queue(t.Context(), "p")
			account.InTurn(want)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%d runtimes, %v, want %d", len(got), err, len(want))
			}
			if scripts != 3 {
				t.Errorf("%d scripts, want 3", scripts)
			}
		})
	}
}
