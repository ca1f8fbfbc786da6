package worker

import (
	"slices"

	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
)

// Policies provides the current policy and its catalog.
type Policies interface {
	// Snapshot returns an immutable version of both, and never nil. Without a policy, its Resolve
	// refuses every interface, or returns policy.ErrLate if one is expected.
	Snapshot() *policy.Snapshot
}

// unconfigured is the default of Options.Policies.
type unconfigured struct{}

func (unconfigured) Snapshot() *policy.Snapshot { return policy.NewSnapshot(nil, nil, nil) }

// resolve returns the reply to a request that asks only for an interface.
func (h *Handler) resolve(e events.Event) (events.Reply, error) {
	chosen, err := h.choose(&e.Resolve.Interface)
	if err != nil {
		return events.Reply{}, err
	}
	r := replyFor(e, events.StatusResolved)
	r.GlobalAccountID, r.Implementation = e.Resolve.GlobalAccountID, implementation(chosen)
	return r, nil
}

// choose resolves an interface. The error is an engine.Error with CodeNoImplementation, or one
// that wraps policy.ErrLate.
func (h *Handler) choose(wanted *events.Interface) (*policy.Decision, error) {
	chosen, err := h.policies.Snapshot().Resolve(policy.Ref{Path: wanted.Path, Revision: wanted.Revision})
	if err != nil {
		return nil, err
	}
	return &chosen, nil
}

// providerOf returns the hyperscaler of the chosen implementation. It returns "" if the implementation names
// none, or if the plan does not run on several: then the plan's default applies.
func providerOf(chosen *policy.Decision, plan rule.Plan) string {
	if len(plan.Providers) < 2 || len(chosen.Picked.Providers) == 0 {
		return ""
	}
	for _, name := range chosen.Picked.Providers {
		if slices.Contains(plan.Providers, name) {
			return name
		}
	}
	return chosen.Picked.Providers[0] // not in the plan: the rules reject it, and name it in the error
}

// implementation returns the choice as a part of the reply.
func implementation(chosen *policy.Decision) *events.Implementation {
	out := &events.Implementation{Path: chosen.Picked.Path, Revision: chosen.Picked.Revision}
	for _, injected := range chosen.Inject {
		out.Inject = append(out.Inject, events.Inject{Name: injected.Name, ID: injected.ID})
	}
	return out
}
