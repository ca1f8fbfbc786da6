package counters_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestLaneSharesRoundTrips lets many callers ask at once: all are answered, each with
// its own decision.
func TestLaneSharesRoundTrips(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := counterstest.NewMachine(counterstest.Redis(t), "").OverLanes(t)
	build(t, m, "p", "e1", account.Snapshot{})
	const callers = 64
	sequences := make([]int64, callers)
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			d, err := m.Assign(ctx, "p", claim(fmt.Sprintf("r%d", n), fmt.Sprintf("q%d", n), "ga-1", "a"))
			if err != nil {
				t.Error(err)
			}
			sequences[n] = d.Sequence
		})
	}
	all.Wait()
	seen := map[int64]bool{}
	for _, s := range sequences {
		if s == 0 || seen[s] {
			t.Errorf("sequence %d twice or not at all", s)
		}
		seen[s] = true
	}
	_, records, err := m.Records(ctx, "p")
	if err != nil || len(records) != callers {
		t.Errorf("%d runtimes, %v", len(records), err)
	}
}

// TestManySuggestions lets several callers ask at once with more suggestions than Lua's unpack and
// than one call can take, as from a cache of thousands of accounts that is far behind.
func TestManySuggestions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, client := range servers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := counterstest.NewMachine(client, "").OverLanes(t)
			build(t, m, "p", "e1", account.Snapshot{})
			var all sync.WaitGroup
			for n := range 8 {
				all.Go(func() {
					r := claim(fmt.Sprintf("r%d", n), fmt.Sprintf("q%d", n), fmt.Sprintf("ga-%d", n))
					for i := range 5000 {
						r.Seen = append(r.Seen, account.Seen{Binding: fmt.Sprintf("a-%d", i)})
					}
					d, err := m.Assign(ctx, "p", r)
					if err != nil || d.Outcome != account.Assigned || d.Origin != account.Claimed {
						t.Errorf("request %d: %+v, %v", n, d, err)
					}
				})
			}
			all.Wait()
		})
	}
}

// TestLaneOutlivesItsConnection cuts the connection that callers share: the next
// caller is answered all the same.
func TestLaneOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := counterstest.Redis(t)
	m := counterstest.NewMachine(client, "").OverLanes(t)
	build(t, m, "p", "e1", account.Snapshot{})
	for n := range 5 {
		if _, err := m.Assign(ctx, "p", claim(fmt.Sprintf("r%d", n), fmt.Sprintf("q%d", n), "ga-1", "a")); err != nil {
			t.Fatal(err)
		}
		if err := client.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLaneBesideFirstConnections opens lanes while their clients open connections too, and write to
// their options.
func TestLaneBesideFirstConnections(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := counterstest.StartRedis(t)
	for range 30 {
		client := server.Client(t)
		m := counterstest.NewMachine(client, "").OverLanes(t)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := client.Ping(ctx).Err(); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if _, err := m.Place(ctx, "r"); !errors.Is(err, account.ErrNotBuilt) {
					t.Errorf("a place before all is built: %v", err)
				}
			})
		}
		all.Wait()
	}
}

// TestLaneLeavesWhoGivesUp ends a caller's context before the call: the call is not sent, and the
// error is the context's.
func TestLaneLeavesWhoGivesUp(t *testing.T) {
	t.Parallel()
	m := counterstest.NewMachine(counterstest.Redis(t), "").OverLanes(t)
	build(t, m, "p", "e1", account.Snapshot{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Assign(ctx, "p", claim("r1", "q1", "ga-1", "a")); !errors.Is(err, context.Canceled) {
		t.Errorf("a call of a caller who gave up: %v", err)
	}
	_, records, err := m.Records(t.Context(), "p")
	if err != nil || len(records) != 0 {
		t.Errorf("%d runtimes, %v", len(records), err)
	}
}
