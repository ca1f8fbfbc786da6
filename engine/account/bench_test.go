package account_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// BenchmarkAssign measures an assignment and its departure, on a pool with a number of claimed bindings and
// waiting runtimes.
func BenchmarkAssign(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d bindings", size), func(b *testing.B) {
			runtimes := map[string]account.Runtime{}
			snapshot := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: maps.All(runtimes)}
			for n := range size {
				snapshot.Bindings[fmt.Sprintf("b-%d", n)] = account.Record{
					State: account.InUse, Tenant: fmt.Sprintf("ga-%d", n), Generation: 1, Confirmed: true, Count: 1,
				}
				runtimes[fmt.Sprintf("w-%d", n)] = account.Runtime{
					State: account.RuntimeWaiting, Sequence: int64(n), Request: "q", Tenant: fmt.Sprintf("new-%d", n),
				}
			}
			p := account.NewPool()
			p.BeginRebuild("e", time.Time{}, 0)
			if !p.Install("e", snapshot) {
				b.Fatal("the pool is not built")
			}
			for b.Loop() {
				d, err := p.Assign(account.Request{Runtime: "r", Request: "q", Tenant: "ga-7", All: true})
				if err != nil || d.Binding != "b-7" {
					b.Fatal(d, err)
				}
				gone, err := p.ReleaseRuntime("r", "", 0)
				if err != nil {
					b.Fatal(err)
				}
				if forgotten, err := p.Forget("r", gone.Sequence); !forgotten || err != nil {
					b.Fatal(forgotten, err)
				}
			}
		})
	}
}
