package counters_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestLostKey is rule 1 for evicted or deleted keys: a place that has lost one key is not built for
// any script, and can be rebuilt.
func TestLostKey(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"meta", "b", "r", "t", "u", "w", "q"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			ctx, m, client := filled(t)
			if n, err := client.Del(ctx, "hap:{p}:"+key).Result(); err != nil || n != 1 {
				t.Fatalf("deleted %d, %v", n, err)
			}
			if d, err := m.Assign(ctx, "p", claim("r9", "q9", "ga-2", "c")); !errors.Is(err, account.ErrNotBuilt) {
				t.Errorf("decided %+v, %v", d, err)
			}
			if built, err := m.Built(ctx, "p", "other"); err != nil || built["p"] || !built["other"] {
				t.Errorf("built %v, %v", built, err)
			}
			build(t, m, "p", "e2", account.Snapshot{})
			if _, err := m.Assign(ctx, "p", claim("r9", "q9", "ga-2", "c")); err != nil {
				t.Errorf("after the rebuild: %v", err)
			}
		})
	}
}

// TestLostDirectory is the same for a bucket.
func TestLostDirectory(t *testing.T) {
	t.Parallel()
	client := counterstest.Redis(t)
	m, bucket := counterstest.NewMachine(client, ""), account.BucketOf("r1")
	buildBucket(t, m, bucket, "b1")
	if _, err := m.Locate(t.Context(), "r1", "p"); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Del(t.Context(), "hap:{"+bucket+"}:d").Result(); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if place, err := m.Depart(t.Context(), "r1"); !errors.Is(err, account.ErrNotBuilt) {
		t.Errorf("located at %+v, %v", place, err)
	}
	buildBucket(t, m, bucket, "b2")
}

// TestFailsAfterWriting: if a request fails after a write, here because of a key of another type, its
// records must be rebuilt and no request of its call is answered.
func TestFailsAfterWriting(t *testing.T) {
	t.Parallel()
	ctx, m, client := filled(t)
	if err := client.Set(ctx, "hap:{p}:q", "of another type", 0).Err(); err != nil {
		t.Fatal(err)
	}
	served := claim("r3", "q3", "ga-3", "c")
	served.InTurn = true
	if d, err := m.Assign(ctx, "p", served); err == nil || errors.Is(err, account.ErrNotBuilt) || !strings.Contains(err.Error(), "built anew") {
		t.Errorf("decided %+v, %v", d, err)
	}
	if d, err := m.Assign(ctx, "p", claim("r9", "q9", "ga-2", "c")); !errors.Is(err, account.ErrNotBuilt) {
		t.Errorf("then decided %+v, %v", d, err)
	}
	build(t, m, "p", "e2", account.Snapshot{})
}

// filled returns a machine whose pool p has data in each of its keys.
func filled(t *testing.T) (context.Context, *counterstest.Machine, *redis.Client) {
	ctx, client := t.Context(), counterstest.Redis(t)
	m := counterstest.NewMachine(client, "")
	build(t, m, "p", "e1", account.Snapshot{})
	build(t, m, "other", "e1", account.Snapshot{})
	served := claim("r2", "q2", "ga-2", "b")
	served.InTurn = true
	for _, r := range []account.Request{
		claim("r1", "q1", "ga-1", "a"), claim("r2", "q2", "ga-2"), claim("r3", "q3", "ga-3"), claim("r4", "q4", "ga-4"), served,
	} {
		if _, err := m.Assign(ctx, "p", r); err != nil {
			t.Fatal(err)
		}
	}
	return ctx, m, client
}

// TestEvictsByNow: a new connection refuses a server whose policy was changed to evict, or another
// such server after a fail-over.
func TestEvictsByNow(t *testing.T) {
	t.Parallel()
	direct := counterstest.Redis(t)
	store, err := counters.Open(connection.Options{URLs: []string{"unix://" + direct.Options().Addr}}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	policy := func(name string) {
		if err := direct.ConfigSet(t.Context(), "maxmemory-policy", name).Err(); err != nil {
			t.Fatal(err)
		}
		if err := direct.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Status(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	policy("allkeys-lru")
	if _, err := store.Status(t.Context(), "p"); !errors.Is(err, connection.ErrEvicts) {
		t.Errorf("asked a server that evicts: %v", err)
	}
	if _, err := store.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), "set maxmemory-policy to noeviction") {
		t.Errorf("a start is told %v", err)
	}
	policy("noeviction")
	if _, err := store.Status(t.Context(), "p"); err != nil {
		t.Errorf("after the cure: %v", err)
	}
}
