package counters_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
)

var now = time.Unix(1_000_000, 0)

var callsOf = regexp.MustCompile(`:calls=(\d+)`)

// servers are the servers that every test of a method uses.
func servers(t testing.TB) map[string]*redis.Client {
	return map[string]*redis.Client{"miniredis": counterstest.Mini(t), "redis": counterstest.Redis(t)}
}

// commands is the number of commands that the server has run, in scripts too.
func commands(t testing.TB, client *redis.Client) int64 {
	t.Helper()
	var all int64
	for _, calls := range callsOf.FindAllStringSubmatch(client.Info(context.Background(), "commandstats").Val(), -1) {
		n, err := strconv.ParseInt(calls[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all += n
	}
	return all
}

// BenchmarkAssign measures a decision on a separate Redis, over a socket.
func BenchmarkAssign(b *testing.B) {
	suggestions := make([]account.Seen, 16)
	for n := range suggestions {
		suggestions[n].Binding = fmt.Sprintf("taken-%d", n)
	}
	for _, bench := range []struct {
		name    string
		request func(n int) account.Request
	}{
		{"repeat", func(int) account.Request { return claim("rt-0", "q", "ga-0", "x") }},
		{"own", func(n int) account.Request {
			r := claim(fmt.Sprintf("new-%d", n), "q", "ga-0")
			r.Seen = suggestions
			return r
		}},
		{"claim", func(n int) account.Request {
			return claim(fmt.Sprintf("new-%d", n), "q", fmt.Sprintf("ga-new-%d", n), fmt.Sprintf("free-%d", n))
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			m := counterstest.NewMachine(counterstest.Redis(b), "")
			build(b, m, "p", "e1", benchPool())
			ctx := context.Background()
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				d, err := m.Assign(ctx, "p", bench.request(n))
				if err != nil || d.Outcome != account.Assigned {
					b.Fatal(d, err)
				}
			}
		})
	}
}

// twoCommands is the least work of a script that stores anything.
var twoCommands = redis.NewScript(`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('HINCRBY', KEYS[1], 'seq', 1)
`)

// BenchmarkTogether measures the cost for Redis of a decision and the look-up in the directory before
// it, with as many concurrent callers as a worker has handlers.
func BenchmarkTogether(b *testing.B) {
	const callers = 64
	client := counterstest.Redis(b, "--appendonly", "yes", "--appendfsync", "everysec")
	m := counterstest.NewMachine(client, "").OverLanes(b)
	build(b, m, "p", "e1", benchPool())
	for n := range account.Buckets {
		buildBucket(b, m, account.BucketName(n), "e1")
	}
	for _, bench := range []struct {
		name string
		ask  func(ctx context.Context, n int64) error
	}{
		{"two commands", func(ctx context.Context, n int64) error {
			return twoCommands.Run(ctx, client, []string{"two"}, fmt.Sprintf("new-%d", n), "assigned").Err()
		}},
		{"own", func(ctx context.Context, n int64) error {
			_, err := m.Assign(ctx, "p", claim(fmt.Sprintf("new-%d", n), "q", fmt.Sprintf("ga-%d", n%50)))
			return err
		}},
		{"locate", func(ctx context.Context, n int64) error {
			_, err := m.Locate(ctx, fmt.Sprintf("new-%d", n), "p")
			return err
		}},
		{"locate and own", func(ctx context.Context, n int64) error {
			_, err := m.LocateAndAssign(ctx, "p", claim(fmt.Sprintf("both-%d", n), "q", fmt.Sprintf("ga-%d", n%50)))
			return err
		}},
		{"release", func(ctx context.Context, n int64) error {
			_, err := m.ReleaseRuntime(ctx, account.Place{Pool: "p"}, fmt.Sprintf("new-%d", n), "")
			return err
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			ctx := context.Background()
			var asked atomic.Int64
			before := redisCPU(b, client)
			b.SetParallelism(callers / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := bench.ask(ctx, asked.Add(1)); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64((redisCPU(b, client)-before).Nanoseconds())/float64(b.N), "redis-ns/op")
		})
	}
}

// redisCPU returns the processor time that the server has used.
func redisCPU(b *testing.B, client *redis.Client) time.Duration {
	b.Helper()
	info := client.InfoMap(context.Background(), "cpu")
	var user, system float64
	_, errUser := fmt.Sscan(info.Item("CPU", "used_cpu_user"), &user)
	_, errSystem := fmt.Sscan(info.Item("CPU", "used_cpu_sys"), &system)
	if err := errors.Join(info.Err(), errUser, errSystem); err != nil {
		b.Fatal(err)
	}
	return time.Duration((user + system) * float64(time.Second))
}

// benchPool has a thousand tenants with an account each.
func benchPool() account.Snapshot {
	runtimes := map[string]account.Runtime{}
	s := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: maps.All(runtimes)}
	for n := range 1000 {
		binding, tenant := fmt.Sprintf("taken-%d", n), fmt.Sprintf("ga-%d", n)
		s.Bindings[binding] = account.Record{State: account.InUse, Tenant: tenant, Generation: 1, Confirmed: true, Count: 1}
		runtimes[fmt.Sprintf("rt-%d", n)] = account.Runtime{
			State: account.RuntimeAssigned, Binding: binding, Sequence: int64(n), Confirmed: true, Tenant: tenant,
		}
	}
	return s
}
