package simulation

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/simulation/servers"
)

// consistent, which sums up in any order, and miscounted, which reports by name, find the same.
func TestConsistentFindsWhatMiscountedSays(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := servers.NewMaster("redis-a")
		pools := []engine.Pool{{HyperscalerType: "aws"}, {HyperscalerType: "gcp"}}
		for _, pool := range pools[r.IntN(2):] { // one may not be built
			runtimes := map[string]account.Runtime{}
			s := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: maps.All(runtimes)}
			counts := map[string]int{}
			for n := range r.IntN(12) {
				binding := "b-" + strconv.Itoa(r.IntN(4))
				state := []account.RuntimeState{account.RuntimeAssigned, account.RuntimeGone}[r.IntN(2)]
				runtimes["rt-"+strconv.Itoa(n)] = account.Runtime{State: state, Binding: binding}
				if state == account.RuntimeAssigned {
					counts[binding]++
				}
			}
			for binding, count := range counts {
				if r.IntN(8) == 0 {
					count += 1 - 2*r.IntN(2)
				}
				s.Bindings[binding] = account.Record{State: account.InUse, Tenant: "ga-1", Count: count}
			}
			if ok, err := m.Counters.BeginRebuild(t.Context(), pool.Name(), "token", time.Time{}, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if ok, err := m.Counters.Install(t.Context(), pool.Name(), "token", s); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		quick, named := &world{pools: pools, tally: map[string]int{}}, &world{pools: pools}
		quick.consistent(m)
		named.miscounted(m)
		if quick.violation != named.violation {
			t.Errorf("seed %d: %q in no order, %q by name", seed, quick.violation, named.violation)
		}
		if named.violation != "" {
			found++
		}
	}
	if found < 50 || found > 250 {
		t.Errorf("%d of 300 are miscounted", found)
	}
}
