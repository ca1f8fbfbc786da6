package counters_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestFailOverAndBack is rule 1: a master that was a replica for a while has lost what it alone had,
// although its run is the same and open connections stayed open.
func TestFailOverAndBack(t *testing.T) {
	t.Parallel()
	ctx, now := t.Context(), time.Unix(1_700_000_000, 0)
	first, firstAt := replicated(t)
	second, secondAt := replicated(t)
	follow(t, second, firstAt) // which begins a history
	m := counterstest.NewMachine(first, "")
	for _, place := range []string{"p", "q"} {
		if mine, err := m.BeginRebuild(ctx, place, account.FencedEpoch(place), now, time.Minute); err != nil || !mine {
			t.Fatalf("begin: %v, %v", mine, err)
		}
	}
	if built, err := m.Install(ctx, "p", account.FencedEpoch("p"), account.Snapshot{}); err != nil || !built {
		t.Fatalf("install: %v, %v", built, err)
	}
	// Without this the second server may lack the pool, which would then be the reason why it is not
	// built.
	if n, err := first.Wait(ctx, 1, time.Minute).Result(); err != nil || n != 1 {
		t.Fatalf("the replica has not taken what was installed: %d, %v", n, err)
	}
	follow(t, second, "") // a fail-over that the first one does not notice at once
	lost, err := m.ReleaseRuntime(ctx, account.Place{Pool: "p"}, "rt-lost", "")
	if err != nil || lost.Sequence != 1 {
		t.Fatalf("%+v, %v", lost, err)
	}
	follow(t, first, secondAt)
	follow(t, first, "")

	if d, err := m.ReleaseRuntime(ctx, account.Place{Pool: "p"}, "rt-other", ""); !errors.Is(err, account.ErrNotBuilt) {
		t.Errorf("decided with lost writes: number %d, as rt-lost had, %v", d.Sequence, err)
	}
	if mine, err := m.RenewRebuild(ctx, "q", account.FencedEpoch("q"), now); err != nil || mine {
		t.Errorf("renewed on another history: %v, %v", mine, err)
	}
	if built, err := m.Install(ctx, "q", account.FencedEpoch("q"), account.Snapshot{}); err != nil || built {
		t.Errorf("installed on another history: %v, %v", built, err)
	}
	if mine, err := m.BeginRebuild(ctx, "p", account.FencedEpoch("next"), now, time.Minute); err != nil || !mine {
		t.Fatalf("the next rebuild: %v, %v", mine, err)
	}
	if built, err := m.Install(ctx, "p", account.FencedEpoch("next"), account.Snapshot{Sequence: 1}); err != nil || !built {
		t.Errorf("the next rebuild's install: %v, %v", built, err)
	}
	if d, err := m.ReleaseRuntime(ctx, account.Place{Pool: "p"}, "rt-other", ""); err != nil || d.Sequence != 2 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestBuiltByAnOlderVersion: a place without a history counts as built.
func TestBuiltByAnOlderVersion(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := counterstest.StartRedis(t).Client(t)
	m := counterstest.NewMachine(client, "")
	now := time.Unix(1_700_000_000, 0)
	if mine, err := m.BeginRebuild(ctx, "p", "e", now, time.Minute); err != nil || !mine {
		t.Fatal(mine, err)
	}
	if built, err := m.Install(ctx, "p", "e", account.Snapshot{}); err != nil || !built {
		t.Fatal(built, err)
	}
	metas, err := client.Keys(ctx, "*meta*").Result()
	if err != nil || len(metas) != 1 {
		t.Fatal(metas, err)
	}
	if n, err := client.HDel(ctx, metas[0], "history").Result(); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if _, err := m.ReleaseRuntime(ctx, account.Place{Pool: "p"}, "rt", ""); err != nil {
		t.Error(err)
	}
}

// replicated starts a server that others can follow, and returns its address.
func replicated(t *testing.T) (client *redis.Client, address string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err := errors.Join(err, free.Close()); err != nil {
		t.Fatal(err)
	}
	return counterstest.StartRedis(t, "--port", port, "--repl-diskless-sync-delay", "0").Client(t), address
}

// follow makes a server a replica and waits until it has its master's data; with "" it makes the
// server a master.
func follow(t *testing.T, client *redis.Client, master string) {
	t.Helper()
	host, port := "NO", "ONE"
	if master != "" {
		var err error
		if host, port, err = net.SplitHostPort(master); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	if master == "" {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for {
		info, err := client.Info(ctx, "replication").Result()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info, "master_link_status:up") && !strings.Contains(info, "master_sync_in_progress:1") {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not in step with %s: %s", master, info)
		case <-every.C:
		}
	}
}
