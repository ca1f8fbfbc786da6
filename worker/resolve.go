package worker

import (
	"slices"

	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
)

// Policies returns the policy of now, with the catalog that it speaks of. A
// resolution takes it once, so that it sees one version from beginning to end.
type Policies interface {
	// Snapshot is never nil: without a policy it refuses every interface, or says that one
	// is expected.
	Snapshot() *policy.Snapshot
}

// unconfigured are the Policies of a worker without any.
type unconfigured struct{}

func (unconfigured) Snapshot() *policy.Snapshot { return policy.NewSnapshot(nil, nil, nil) }

// resolve answers a request for an interface alone.
func (h *Handler) resolve(e events.Event) (events.Reply, error) {
	chosen, err := h.choose(&e.Resolve.Interface)
	if err != nil {
		return events.Reply{}, err
	}
	return events.Reply{
		RequestID: e.ID, RuntimeID: e.RuntimeID, Status: events.StatusResolved,
		GlobalAccountID: e.Resolve.GlobalAccountID, Implementation: implementation(chosen),
	}, nil
}

// choose resolves an interface. The error is an engine.Error with CodeNoImplementation, or
// with policy.ErrLate.
func (h *Handler) choose(wanted *events.Interface) (*policy.Decision, error) {
	chosen, err := h.policies.Snapshot().Resolve(policy.Ref{Path: wanted.Path, Revision: wanted.Revision})
	if err != nil {
		return nil, err
	}
	return &chosen, nil
}

// providerOf is the hyperscaler that the chosen implementation is made for where the plan
// runs on several, else "", which the plan's default replaces.
func providerOf(chosen *policy.Decision, plan rule.Plan) string {
	if len(plan.Providers) < 2 || len(chosen.Picked.Providers) == 0 {
		return ""
	}
	for _, name := range chosen.Picked.Providers {
		if slices.Contains(plan.Providers, name) {
			return name
		}
	}
	return chosen.Picked.Providers[0] // which is refused by its name
}

// implementation is the part of a reply that says what was chosen.
func implementation(chosen *policy.Decision) *events.Implementation {
	out := &events.Implementation{Path: chosen.Picked.Path, Revision: chosen.Picked.Revision}
	for _, injected := range chosen.Inject {
		out.Inject = append(out.Inject, events.Inject{Name: injected.Name, ID: injected.ID})
	}
	return out
}
