package counters_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

func joined(warnings []string, err error) string {
	said := strings.Join(warnings, "\n")
	if err != nil {
		said += err.Error()
	}
	return said
}

func contains(text, part string) bool { return strings.Contains(text, part) }

// TestConnectWithoutRunID is a server on which a restart cannot be noticed.
func TestConnectWithoutRunID(t *testing.T) {
	t.Parallel()
	store := counters.New(counterstest.Mini(t), "")
	warnings, err := store.Connect(t.Context())
	if said := joined(warnings, err); err != nil || !contains(said, "run_id") {
		t.Errorf("said %q, %v", said, err)
	}
}

func TestConnectNobodyThere(t *testing.T) {
	t.Parallel()
	store, err := counters.Open(connection.Options{URLs: []string{"redis://:geheim@127.0.0.1:1/0"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, err = store.Connect(t.Context())
	var e *engine.Error
	if !errors.As(err, &e) || contains(err.Error(), "geheim") {
		t.Errorf("connect: %v", err)
	}
}

func TestOpenRefusesWithoutTellingSecrets(t *testing.T) {
	t.Parallel()
	for _, urls := range [][]string{
		nil,
		{"http://:geheim@a"},
		{"redis://a", "redis://:geheim@a:b:c"},
		{"redis://a/db?password=geheim"},
		{"redis://:geh\x00eim@a"},
	} {
		_, err := counters.Open(connection.Options{URLs: urls}, "")
		if err == nil || contains(err.Error(), "geh") {
			t.Errorf("%q: %v", urls, err)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	server := counterstest.StartRedis(t)
	store, err := counters.Open(connection.Options{URLs: []string{"unix://" + server.Socket + "?db=2"}}, "mine[1]")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if mine, err := store.BeginRebuild(t.Context(), "aws+eu", "e1", now, 0); !mine || err != nil {
		t.Fatal(mine, err)
	}
	pools, err := store.Pools(t.Context())
	if err != nil || !slices.Equal(pools, []string{"aws+eu"}) {
		t.Errorf("pools %q, %v", pools, err)
	}
	keys, err := server.Client(t).Do(t.Context(), "INFO", "keyspace").Text()
	if err != nil || !contains(keys, "db2:keys=1") {
		t.Errorf("keyspace %q, %v", keys, err)
	}
}

// TestNamesOfAllKinds uses every byte that Kubernetes allows in a name or label
// value, names that begin alike, and the largest numbers.
func TestNamesOfAllKinds(t *testing.T) {
	t.Parallel()
	for name, client := range servers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := counterstest.NewMachine(client, "")
			pool := "gcp_cf-sa30.x+eu"
			const most = 1<<53 - 3
			build(t, m, pool, "0b7b9d1e-2c4f-4a6e-9f66-e8d5d8ad3c65", account.Snapshot{Sequence: most - 1})
			long := strings.Repeat("a.b-C_9", 9)
			for n, tenant := range []string{long, long[:62], "0"} {
				r := account.Request{
					Runtime: fmt.Sprintf("r-%s%d", tenant[:1], n), Request: "q_" + tenant[:1], Tenant: tenant, All: true,
					Seen: []account.Seen{{Binding: strings.Repeat("x.", 100) + tenant, Generation: most}},
				}
				d, err := m.Assign(t.Context(), pool, r)
				if err != nil {
					t.Fatal(err)
				}
				if d.Outcome == account.Assigned && d.Generation != most+1 {
					t.Errorf("generation %d", d.Generation)
				}
			}
			if err := m.CheckIndexes(t.Context(), pool); err != nil {
				t.Error(err)
			}
			status, err := m.Status(t.Context(), pool)
			if err != nil || status.Sequence != most+2 {
				t.Errorf("sequence %d, %v", status.Sequence, err)
			}
		})
	}
}

// TestRefusedArguments passes names and numbers that records cannot hold.
func TestRefusedArguments(t *testing.T) {
	t.Parallel()
	m := counterstest.NewMachine(counterstest.Mini(t), "")
	build(t, m, "p", "e1", account.Snapshot{})
	ctx := t.Context()
	bad := func(what string, err error) {
		t.Helper()
		if err == nil || errors.Is(err, account.ErrNotBuilt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"a b", "a|b", "a\nb", "a\x00", "ä"} {
		_, err := m.Assign(ctx, "p", claim("r1", "q1", "ga-1", name))
		bad("binding "+name, err)
		_, err = m.Assign(ctx, "p", claim("r1", "q1", name, "a"))
		bad("tenant "+name, err)
		_, err = m.Assign(ctx, "p", claim(name, "q1", "ga-1", "a"))
		bad("runtime "+name, err)
		_, err = m.Observe(ctx, "p", account.Label{Binding: "a", Tenant: name})
		bad("label "+name, err)
		_, err = m.ReleaseRuntime(ctx, account.Place{Pool: "p"}, name, "")
		bad("release "+name, err)
		_, err = m.Locate(ctx, name, "p")
		bad("locate "+name, err)
	}
	_, err := m.Observe(ctx, "p", account.Label{Binding: "a", Generation: 1 << 53})
	bad("generation", err)
	_, err = m.Observe(ctx, "p", account.Label{Binding: "a", Generation: -1})
	bad("generation", err)
	_, err = m.BeginRebuild(ctx, "q", "", now, 0)
	bad("token", err)
	_, err = m.BeginRebuild(ctx, "q", "{x}", now, 0)
	bad("token", err)
	if records, runtimes, err := m.Records(ctx, "p"); err != nil || len(records)+len(runtimes) > 0 {
		t.Errorf("left %v %v %v", records, runtimes, err)
	}
}

// TestLargePool installs a pool of more than one chunk, and checks that a decision costs the same as
// in an empty pool.
func TestLargePool(t *testing.T) {
	t.Parallel()
	client := counterstest.Redis(t)
	m := counterstest.NewMachine(client, "")
	ctx := t.Context()
	placed := map[string]account.Runtime{}
	snapshot := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: maps.All(placed)}
	for n := range 3001 {
		binding, tenant := fmt.Sprintf("b-%d", n), fmt.Sprintf("ga-%d", n)
		snapshot.Bindings[binding] = account.Record{State: account.InUse, Tenant: tenant, Generation: 1, Confirmed: true, Count: 1}
		placed[fmt.Sprintf("rt-%d", n)] = account.Runtime{
			State: account.RuntimeAssigned, Binding: binding, Sequence: int64(n), Confirmed: true, Tenant: tenant,
		}
	}
	build(t, m, "large", "e1", snapshot)
	build(t, m, "small", "e2", account.Snapshot{})
	records, runtimes, err := m.Records(ctx, "large")
	if err != nil || len(records) != 3001 || len(runtimes) != 3001 {
		t.Fatalf("%d bindings, %d runtimes, %v", len(records), len(runtimes), err)
	}
	if err := m.CheckIndexes(ctx, "large"); err != nil {
		t.Error(err)
	}
	cost := func(pool string) int64 {
		before := commands(t, client)
		if _, err := m.Assign(ctx, pool, claim("new", "q", "ga-new", "x")); err != nil {
			t.Fatal(err)
		}
		return commands(t, client) - before
	}
	build(t, m, "first", "e3", account.Snapshot{})
	cost("first") // loads the script
	if small, large := cost("small"), cost("large"); small != large {
		t.Errorf("%d commands in a small pool, %d in a large one", small, large)
	}
	if staged, err := client.Keys(ctx, "*:n:*").Result(); err != nil || len(staged) > 0 {
		t.Errorf("staged keys %q are left, %v", staged, err)
	}
}

func TestReaders(t *testing.T) {
	t.Parallel()
	for name, client := range servers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := counterstest.NewMachine(client, "")
			ctx := t.Context()
			build(t, m, "p", "e1", account.Snapshot{Sequence: 3})
			begin(t, m, "gcp_x", "e2")
			bucket := account.BucketOf("r1")
			buildBucket(t, m, bucket, "b1")
			if _, err := m.Locate(ctx, "r1", "p"); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Assign(ctx, "p", claim("r1", "q1", "ga-1", "a")); err != nil {
				t.Fatal(err)
			}
			if pools, err := m.Pools(ctx); err != nil || !slices.Equal(pools, []string{"gcp_x", "p"}) {
				t.Errorf("pools %q, %v", pools, err)
			}
			built, err := m.Built(ctx, "p", "gcp_x", bucket, "nowhere")
			if err != nil || !built["p"] || !built[bucket] || built["gcp_x"] || built["nowhere"] {
				t.Errorf("built %v, %v", built, err)
			}
			place, rt, err := m.Runtime(ctx, "r1")
			if err != nil || place != (account.Place{Pool: "p"}) || rt.Binding != "a" || rt.Sequence != 4 {
				t.Errorf("runtime %+v %+v, %v", place, rt, err)
			}
			rec, err := m.Binding(ctx, "p", "a")
			if err != nil || rec.State != account.Claiming || rec.Count != 1 {
				t.Errorf("binding %+v, %v", rec, err)
			}
			if rec, err = m.Binding(ctx, "p", "b"); err != nil || rec.State != account.Free {
				t.Errorf("binding %+v, %v", rec, err)
			}
			places := map[string]account.Place{}
			for p, err := range m.Places(ctx, bucket) {
				if err != nil {
					t.Fatal(err)
				}
				places[p.Runtime] = p.Place
			}
			if len(places) != 1 || places["r1"].Pool != "p" {
				t.Errorf("places %v", places)
			}
		})
	}
}

// TestTenants: Tenants returns each tenant with an assigned runtime once, over any number of pages,
// and no other tenant.
func TestTenants(t *testing.T) {
	t.Parallel()
	for name, client := range servers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := counterstest.NewMachine(client, "")
			const runtimes, tenants = 5000, 7
			placed := map[string]account.Runtime{}
			snapshot := account.Snapshot{Bindings: map[string]account.Record{"b": {State: account.InUse, Confirmed: true, Count: runtimes}}, Runtimes: maps.All(placed)}
			for n := range runtimes {
				placed[fmt.Sprintf("rt-%d", n)] = account.Runtime{
					State: account.RuntimeAssigned, Binding: "b", Sequence: int64(n + 1), Confirmed: true, Tenant: fmt.Sprintf("ga-%d", n%tenants),
				}
			}
			placed["rt-gone"] = account.Runtime{State: account.RuntimeGone, Sequence: 9000, Tenant: "ga-gone"}
			placed["rt-without-tenant"] = account.Runtime{State: account.RuntimeAssigned, Binding: "b", Sequence: 9001, Confirmed: true}
			build(t, m, "aws+shared", "e1", snapshot)
			build(t, m, "empty", "e2", account.Snapshot{})
			got, err := m.Tenants(t.Context(), "aws+shared")
			if want := []string{"ga-0", "ga-1", "ga-2", "ga-3", "ga-4", "ga-5", "ga-6"}; err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
				t.Errorf("%v, %v, want %v", got, err, want)
			}
			if got, err := m.Tenants(t.Context(), "empty"); err != nil || len(got) > 0 {
				t.Errorf("an empty pool has %v, %v", got, err)
			}
			if _, err := m.Tenants(t.Context(), "nowhere"); !errors.Is(err, account.ErrNotBuilt) {
				t.Errorf("a pool that is not built: %v", err)
			}
			if err := client.HSet(t.Context(), "hap:{empty}:r", "rt-1", "assigned|ga-1").Err(); err != nil {
				t.Fatal(err)
			}
			if got, err := m.Tenants(t.Context(), "empty"); err == nil || !strings.Contains(err.Error(), "rt-1") {
				t.Errorf("an unreadable record: %v, %v", got, err)
			}
		})
	}
}

// TestUnreadableRecord: a record that was written by hand is an error that names it, and nothing is
// decided on it.
func TestUnreadableRecord(t *testing.T) {
	t.Parallel()
	for name, client := range servers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := counterstest.NewMachine(client, "")
			build(t, m, "p", "e1", account.Snapshot{})
			client.HSet(t.Context(), "hap:{p}:b", "a", "claimed|ga-1|many|1|0|0|0")
			_, err := m.Assign(t.Context(), "p", claim("r1", "q1", "ga-1", "a"))
			if err == nil || !contains(err.Error(), "binding a is unreadable") {
				t.Errorf("assign: %v", err)
			}
			if _, _, err := m.Records(t.Context(), "p"); err == nil {
				t.Error("reading says nothing")
			}
		})
	}
}

// TestTime: Time returns the server's clock, of redis-server and of miniredis.
func TestTime(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]redis.UniversalClient{"Redis": counterstest.Redis(t), "miniredis": counterstest.Mini(t)} {
		now, err := counters.New(client, "").Time(t.Context())
		if off := time.Since(now).Abs(); err != nil || off > time.Minute {
			t.Errorf("%s: %s, %s from the time of this machine, %v", name, now, off, err)
		}
	}
}
