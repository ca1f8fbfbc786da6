package worker

import (
	"slices"

	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
)

// Policies gives the policy of now, with the catalog that it speaks of. A
// resolution takes it once, so that it sees one version from beginning to end.
type Policies interface {
	// Snapshot is never nil: without a policy it refuses every interface, and says why.
	Snapshot() *policy.Snapshot
}

// unconfigured are the Policies of a worker without any.
type unconfigured struct{}

func (unconfigured) Snapshot() *policy.Snapshot { return policy.NewSnapshot(nil, nil, nil) }

// resolve answers a request for an interface alone.
func (w *Worker) resolve(e events.Event) (events.Reply, error) {
	chosen, err := w.choose(&e.Resolve.Interface)
	if err != nil {
		return events.Reply{}, err
	}
	return events.Reply{
		RequestID: e.ID, RuntimeID: e.RuntimeID, Status: events.StatusResolved,
		GlobalAccountID: e.Resolve.GlobalAccountID, Implementation: implementation(chosen),
	}, nil
}

// choose resolves an interface; nil for a request that names none. The error is
// an engine.Error with CodeNoImplementation.
func (w *Worker) choose(wanted *events.Interface) (*policy.Decision, error) {
	if wanted == nil {
		return nil, nil
	}
	chosen, err := w.opts.Policies.Snapshot().Resolve(policy.Ref{Path: wanted.Path, Revision: wanted.Revision})
	if err != nil {
		return nil, err
	}
	return &chosen, nil
}

// provider is the hyperscaler of a request: the one that it names, else the one
// that the chosen implementation is made for where the plan runs on several, else
// "", which the plan's default replaces.
func provider(given string, plan rule.Plan, chosen *policy.Decision) string {
	if given != "" || chosen == nil || len(plan.Providers) < 2 || len(chosen.Picked.Providers) == 0 {
		return given
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
	if chosen == nil {
		return nil
	}
	out := &events.Implementation{Path: chosen.Picked.Path, Revision: chosen.Picked.Revision}
	for _, injected := range chosen.Inject {
		out.Inject = append(out.Inject, events.Inject{Name: injected.Name, ID: injected.ID})
	}
	return out
}
