package account_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// mostBytes is the most that a runtime, with its share of an account, may occupy while an audit runs: a landscape may
// have a million.
const mostBytes = 240

// What an audit keeps of a runtime that Redis has as the ledger has it does not grow with what the three say.
func TestAuditIsSmall(t *testing.T) {
	const n = 100_000
	in := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := in()
	g := account.NewGathering()
	id := func(kind string, i int) string { return fmt.Sprintf("%s-0000-4000-8000-%012d", kind, i) }
	on := func(i int) (binding, tenant string) { return fmt.Sprintf("account-%06d", i/10), id("5b7f2c1e", i/10) }
	for i := range n {
		binding, tenant := on(i)
		g.Answer(account.Answer{
			Pool: "aws", Runtime: id("7b9d2e11", i), Request: id("3f2a1c00", i), Tenant: tenant, State: account.RuntimeAssigned,
			Binding: binding, Sequence: int64(i + 1), Claimed: i%10 == 0, Generation: 1,
		})
	}
	for i := 0; i < n; i += 10 {
		binding, tenant := on(i)
		g.Binding(engine.Binding{Name: binding, HyperscalerType: "aws", Tenant: tenant, Generation: 1})
	}
	for i := range n {
		binding, tenant := on(i)
		g.Shoot(engine.Shoot{Name: fmt.Sprintf("c-%07d", i), RuntimeID: id("7b9d2e11", i), Binding: binding, Tenant: tenant})
	}
	found := g.Found()
	for i := range n {
		binding, tenant := on(i)
		found.AddRecord("aws", binding, account.Record{State: account.InUse, Tenant: tenant, Generation: 1, Confirmed: true, Count: 10, Claimed: int64(i/10*10 + 1)})
		found.AddRuntime("aws", id("7b9d2e11", i), account.Runtime{
			State: account.RuntimeAssigned, Binding: binding, Sequence: int64(i + 1), Request: id("3f2a1c00", i),
			Confirmed: true, Origin: account.Revived, Tenant: tenant,
		})
		found.AddPlace(id("7b9d2e11", i), account.Place{Pool: "aws"})
	}
	found.Built("aws", n)
	if drifts := found.Compare(); len(drifts) > 0 {
		t.Errorf("%+v", drifts[0])
	}
	each := (in() - before) / n
	t.Logf("a runtime occupies %d bytes", each)
	if each > mostBytes {
		t.Errorf("a runtime occupies %d bytes, more than %d", each, mostBytes)
	}
	runtime.KeepAlive(found)
}
