package simulate

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// enter puts the state's waiting requests into the waiting room. The state has their records in Redis but not
// their events. So each becomes a request of any plan that the rules match to its pool's provider; its pool and
// its place in the queue are those of the record. If the rules have no such plan, the request stays in the queue
// and is never served.
func (s *Simulator) enter(ctx context.Context, state *State) error {
	for _, p := range state.Pools {
		for _, rt := range p.Runtimes {
			if rt.State != account.RuntimeWaiting {
				continue
			}
			asked, found := s.provisionFor(engine.ParsePool(p.Name), rt)
			if !found {
				continue
			}
			s.restored[rt.Request] = true
			_, err := s.room.Enter(ctx, storage.WaitingRequest{
				Event: events.Event{Type: events.TypeProvision, ID: rt.Request, Source: source, Provision: asked}.Addressed(),
				Pool:  p.Name, Reason: events.WaitingPoolEmpty, Deadline: s.clock.AddDate(1, 0, 0),
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// provisionFor returns a request that the rules match to the pool's provider; false if no plan leads there.
func (s *Simulator) provisionFor(pool engine.Pool, rt Runtime) (*events.Provision, bool) {
	_, region, _ := strings.Cut(pool.HyperscalerType, "_")
	plans := s.terms.Decisions.Rules().Plans()
	for _, plan := range slices.Sorted(maps.Keys(plans)) {
		for _, provider := range plans[plan].Providers {
			asked := rule.Request{Plan: plan, Provider: provider, PlatformRegion: region, HyperscalerRegion: region, Tenant: rt.Tenant}
			match, err := s.terms.Decisions.Rules().Match(asked)
			if err != nil || match.Provider != pool.Provider() {
				continue
			}
			return &events.Provision{
				RuntimeID: rt.ID, GlobalAccountID: rt.Tenant, Plan: plan, Provider: provider, PlatformRegion: region, HyperscalerRegion: region,
				ReplyTo: inbox,
			}, true
		}
	}
	return nil, false
}
