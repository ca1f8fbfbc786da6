package counters_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestRestartedServerIsNotBuilt is rule 1: a server that started again may have data that is older
// than the answers, so no caller on any connection uses them.
func TestRestartedServerIsNotBuilt(t *testing.T) {
	t.Parallel()
	t.Run("asked by each script", func(t *testing.T) {
		t.Parallel()
		restarted(t, func(m *counterstest.Machine) *counterstest.Machine { return m })
	})
	t.Run("told by a lane", func(t *testing.T) {
		t.Parallel()
		restarted(t, func(m *counterstest.Machine) *counterstest.Machine { return m.OverLanes(t) })
	})
}

func restarted(t *testing.T, over func(*counterstest.Machine) *counterstest.Machine) {
	ctx := t.Context()
	server := counterstest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	m := over(counterstest.NewMachine(server.Client(t), ""))
	build(t, m, "p", "e1", account.Snapshot{Sequence: 4})
	bucket := account.BucketOf("r1")
	buildBucket(t, m, bucket, "b1")
	if _, err := m.Locate(ctx, "r1", "p"); err != nil {
		t.Fatal(err)
	}
	d, err := m.Assign(ctx, "p", claim("r1", "q1", "ga-1", "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Pause(ctx, "p"); err != nil {
		t.Fatal(err)
	}

	server.Kill()
	server.Start(t)

	if _, err := m.Assign(ctx, "p", claim("r1", "q1", "ga-1", "a")); !errors.Is(err, account.ErrNotBuilt) {
		t.Errorf("assign on a server that started again: %v", err)
	}
	if ok, err := m.Confirm(ctx, "p", d.Claim("r1")); ok || !errors.Is(err, account.ErrNotBuilt) {
		t.Errorf("confirm on a server that started again: %v, %v", ok, err)
	}
	if _, err := m.Depart(ctx, "r1"); !errors.Is(err, account.ErrNotBuilt) {
		t.Errorf("depart on a server that started again: %v", err)
	}
	if _, _, err := m.Records(ctx, "p"); !errors.Is(err, account.ErrNotBuilt) {
		t.Errorf("reading a server that started again: %v", err)
	}
	built, err := m.Built(ctx, "p", bucket)
	if err != nil || built["p"] || built[bucket] {
		t.Errorf("built %v, %v", built, err)
	}

	build(t, m, "p", "e2", account.Snapshot{Sequence: 9})
	if ok, err := m.Confirm(ctx, "p", d.Claim("r1")); ok || err != nil {
		t.Errorf("a claim of before the restart is confirmed: %v, %v", ok, err)
	}
	status, err := m.Status(ctx, "p")
	if want := (account.Status{Built: true, Epoch: "e2", Sequence: 9, Paused: true}); err != nil || status != want {
		t.Errorf("after the rebuild %+v, %v", status, err)
	}
	if err := m.CheckIndexes(ctx, "p"); err != nil {
		t.Error(err)
	}
}

// TestRepeatedOnANewConnection shows why the script asks for the server's run itself: the command has
// the arguments for the old server and reaches the new one.
func TestRepeatedOnANewConnection(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := counterstest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	client := server.Client(t)
	m := counterstest.NewMachine(client, "")
	build(t, m, "p", "e1", account.Snapshot{})
	if _, err := m.Assign(ctx, "p", claim("r1", "q1", "ga-1", "a")); err != nil {
		t.Fatal(err)
	}
	client.AddHook(beforeNext(func() {
		server.Kill()
		server.Start(t)
	}))
	if _, err := m.Assign(ctx, "p", claim("r2", "q2", "ga-1", "a")); !errors.Is(err, account.ErrNotBuilt) {
		t.Errorf("a command that was made before the restart: %v", err)
	}
}

// hook runs a function once, after a command's arguments are set and before it is sent.
type hook struct{ once chan func() }

func beforeNext(f func()) redis.Hook {
	h := hook{once: make(chan func(), 1)}
	h.once <- f
	return h
}

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		select {
		case f := <-h.once:
			f()
		default:
		}
		return next(ctx, cmd)
	}
}

// claim is a request for any of the suggestions, all unclaimed.
func claim(runtime, request, tenant string, suggested ...string) account.Request {
	r := account.Request{Runtime: runtime, Request: request, Tenant: tenant, All: true}
	for _, name := range suggested {
		r.Seen = append(r.Seen, account.Seen{Binding: name})
	}
	return r
}

func build(t testing.TB, m *counterstest.Machine, pool, token string, s account.Snapshot) {
	t.Helper()
	begin(t, m, pool, token)
	if ok, err := m.Install(context.Background(), pool, token, s); err != nil || !ok {
		t.Fatalf("install %s: %v, %v", pool, ok, err)
	}
}

func buildBucket(t testing.TB, m *counterstest.Machine, bucket, token string) {
	t.Helper()
	begin(t, m, bucket, token)
	if ok, err := m.InstallBucket(context.Background(), bucket, token, account.Directory{}); err != nil || !ok {
		t.Fatalf("install %s: %v, %v", bucket, ok, err)
	}
}

func begin(t testing.TB, m *counterstest.Machine, place, token string) {
	t.Helper()
	mine, err := m.BeginRebuild(context.Background(), place, token, time.Unix(0, 0), 0)
	if err != nil || !mine {
		t.Fatalf("begin rebuild of %s: %v, %v", place, mine, err)
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, want string // in the warnings, or in the error
		args       []string
		refused    bool
	}{
		{name: "nothing is kept", want: "no append-only file"},
		{name: "kept", args: []string{"--appendonly", "yes"}},
		{name: "snapshots, which only CONFIG would tell", args: []string{"--save", "60 1"}, want: "unless it makes snapshots"},
		{name: "evicts", args: []string{"--maxmemory-policy", "allkeys-lru"}, want: "allkeys-lru", refused: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := counters.New(counterstest.Redis(t, test.args...), "")
			warnings, err := store.Connect(t.Context())
			if errors.Is(err, connection.ErrEvicts) != test.refused || (err != nil) != test.refused {
				t.Fatalf("connect: %v", err)
			}
			said := joined(warnings, err)
			if test.want == "" && said != "" || !contains(said, test.want) {
				t.Errorf("said %q, want %q", said, test.want)
			}
		})
	}
}
