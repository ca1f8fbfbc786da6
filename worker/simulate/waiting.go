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
)

// enter puts the requests that wait by the state into the waiting room. The state has the
// record of Redis and not the event: a request is one of any plan that leads to accounts
// of its pool's provider. Its pool and its turn are those of the record, whatever the plan.
// One for which the rules have no such plan stays in the queue, and is never served.
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
			_, err := s.room.Enter(ctx, events.WaitingRequest{
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

// provisionFor returns a request that the rules lead to accounts of the pool's provider.
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
