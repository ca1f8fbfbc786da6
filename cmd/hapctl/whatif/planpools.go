package whatif

import (
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/capacity"
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// plannedPool is a pool with facts for its view.
type plannedPool struct {
	capacity.Pool
	hyperscalerType string
	leftOut         int // accounts that no request can get: held ones, and unclaimed ones that are internal, cordoned, being deleted or a duplicate
}

// plannedPools returns the present pools without the shared ones, which have room for every request. The age of a
// cluster is the time since its entry in begins, the times of assignment by runtime; without one it is window.
func plannedPools(state *simulate.State, begins map[string]time.Time, window time.Duration) map[string]*plannedPool {
	records := map[view.Place]account.Record{}
	for _, p := range state.Pools {
		for _, a := range p.Accounts {
			records[view.Place{Pool: p.Name, Binding: a.Binding}] = account.Record(a.Record)
		}
	}
	pools, homes := map[string]*plannedPool{}, map[view.Place]*plannedPool{}
	for _, of := range state.Bindings {
		b := engine.Binding(of)
		if b.Shared {
			continue
		}
		at := view.Place{Pool: b.Pool().Name(), Binding: b.Name}
		p := pools[at.Pool]
		if p == nil {
			p = &plannedPool{hyperscalerType: b.HyperscalerType}
			pools[at.Pool] = p
		}
		rec := records[at]
		a, counts := plannedAccount(&b, &rec)
		if !counts {
			p.leftOut++
			continue
		}
		p.Accounts = append(p.Accounts, a)
		homes[at] = p
	}
	for _, of := range state.Pools {
		for _, rt := range of.Runtimes {
			p := homes[view.Place{Pool: of.Name, Binding: rt.Binding}]
			if rt.State != account.RuntimeAssigned || p == nil {
				continue
			}
			age := window // it is older than the history, or came without a request
			if begin, known := begins[rt.ID]; known {
				age = max(0, state.TakenAt.Sub(begin))
			}
			p.Clusters = append(p.Clusters, capacity.Cluster{Tenant: rt.Tenant, Account: rt.Binding, Age: age})
		}
	}
	return pools
}

// plannedAccount converts an account, and reports whether requests can get it, now or later.
func plannedAccount(b *engine.Binding, rec *account.Record) (a capacity.Account, counts bool) {
	a.Name = b.Name
	switch account.Standing(b, rec) {
	case account.Free:
	case account.Dirty, account.Dirtying, account.Draining:
		a.Cleaning = true
	case account.Claiming, account.InUse:
		if a.Tenant = rec.Tenant; a.Tenant == "" {
			a.Tenant = b.Tenant
		}
	default:
		return a, false
	}
	return a, true
}

// ask sets the demand and the terms of the pool's requests.
func (p *plannedPool) ask(past *capacity.Past, decisions *terms.Decisions, cleaning time.Duration) {
	if past == nil {
		past = &capacity.Past{}
	}
	p.Demand = past.Demand(cleaning)
	provider := view.ProviderOf(p.hyperscalerType)
	p.Terms = func(tenant string) account.Terms { return decisions.Terms(tenant, provider) }
	p.Patience = decisions.WaitingTimeout()
}
