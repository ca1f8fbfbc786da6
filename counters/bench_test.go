package counters_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
)

var now = time.Unix(1_000_000, 0)

var callsOf = regexp.MustCompile(`:calls=(\d+)`)

// servers are what every test of a method runs on.
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

// BenchmarkAssign measures a decision on a Redis of its own, over a socket.
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

// benchPool has a thousand tenants with an account each.
func benchPool() account.Snapshot {
	s := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: map[string]account.Runtime{}}
	for n := range 1000 {
		binding, tenant := fmt.Sprintf("taken-%d", n), fmt.Sprintf("ga-%d", n)
		s.Bindings[binding] = account.Record{State: account.InUse, Tenant: tenant, Generation: 1, Confirmed: true, Count: 1}
		s.Runtimes[fmt.Sprintf("rt-%d", n)] = account.Runtime{
			State: account.RuntimeAssigned, Binding: binding, Sequence: int64(n), Confirmed: true, Tenant: tenant,
		}
	}
	return s
}
