package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
)

// provision decides a provision event, from the rules to a confirmed binding,
// and gives the reply that is to be published.
func (w *Worker) provision(ctx context.Context, d *delivery) (events.Reply, error) {
	e, p := d.event, d.event.Provision
	rules := w.rules.Get()
	chosen, err := w.choose(p.Interface)
	if err != nil {
		return events.Reply{}, err
	}
	request := rule.Request{
		Plan: p.Plan, PlatformRegion: p.PlatformRegion, HyperscalerRegion: p.HyperscalerRegion,
		Provider: provider(p.Provider, rules.Rules().Plans()[p.Plan], chosen), Tenant: p.GlobalAccountID,
	}
	d.trail.asks(rules.Rules(), request)
	match, err := rules.Rules().Match(request)
	if err != nil {
		return events.Reply{}, err
	}
	job := w.search(want{
		runtime: p.RuntimeID, request: e.ID, tenant: p.GlobalAccountID, pool: match.Pool, terms: rules.Terms(p.GlobalAccountID, match.Provider),
		internal: rules.Internal(p.GlobalAccountID), inTurn: d.inTurn, trail: &d.trail,
	})
	place, err := w.locateFor(ctx, job)
	if err != nil {
		return events.Reply{}, err
	}
	w.listener.step(ctx, StepLocated)
	if place.Gone {
		return superseded(e, "", place.Sequence), nil
	}
	answer := answer{event: e, match: match, chosen: chosen, terms: job.terms}
	if place.Pool != match.Pool.Name() {
		// An earlier request put the runtime into another pool: that one stays (I10).
		there, epoch := job.want, job.request.Epoch
		there.pool = engine.ParsePool(place.Pool)
		job, answer.elsewhere = w.search(there), true
		job.request.Epoch = epoch
	}
	answer.pool = job.pool
	d.pool = answer.pool.Name()
	applied, full, err := w.acquire(ctx, d)
	if err != nil {
		return events.Reply{}, err
	}
	answer.blocks = blocks(applied)
	if answer.full = full; full != nil {
		answer.decision.Outcome = account.Waiting
		return w.provisioned(ctx, d, answer)
	}
	if answer.terms.Several && !answer.pool.Shared {
		d.trail.strategy = answer.terms.Strategy
	}
	answer.decision, err = w.assign(ctx, job)
	d.decision = answer.decision.Sequence
	w.epochs.learn(place.Pool, answer.decision.Epoch, err)
	if err != nil {
		return events.Reply{}, w.notBuilt(err, place.Pool)
	}
	if answer.decision.Outcome != account.Assigned {
		if err := w.giveBack(ctx, d); err != nil {
			return events.Reply{}, err
		}
	}
	return w.provisioned(ctx, d, answer)
}

// provisioned turns a decision into the reply. At the end of its waiting a request
// is refused in Redis first, so that whatever is delivered again finds the same.
func (w *Worker) provisioned(ctx context.Context, d *delivery, a answer) (events.Reply, error) {
	if a.decision.Outcome == account.Waiting {
		if now := w.now(); now.Before(w.waitsUntil(d)) {
			return a.waiting(a.lacks(), d.until), nil
		}
		considered := a.decision.Considered
		refused, err := w.counters.Refuse(ctx, a.pool.Name(), a.event.RuntimeID, a.event.ID)
		if err != nil {
			return events.Reply{}, err
		}
		if refused.Outcome == account.Assigned {
			return events.Reply{}, fmt.Errorf("runtime %s was served at its deadline: asking again", a.event.RuntimeID)
		}
		a.decision = refused
		a.decision.Considered = considered
	}
	switch a.decision.Outcome {
	case account.Assigned:
		patch, err := w.shootPatch(ctx, a.decision.Binding)
		if err != nil {
			return events.Reply{}, err
		}
		return a.assigned(w.binding(a.decision.Binding, a.pool), patch), nil
	case account.Superseded:
		return superseded(a.event, a.pool.Name(), a.decision.Sequence), nil
	case account.Refused:
		return a.exhausted(), nil
	default:
		return events.Reply{}, fmt.Errorf("assign of runtime %s ended as %q", a.event.RuntimeID, a.decision.Outcome)
	}
}

// shootPatch makes a Shoot use a binding. A Secret that nothing refers to is of no
// use to any Shoot: the request is rejected, and what it holds is taken back.
func (w *Worker) shootPatch(ctx context.Context, binding string) ([]events.PatchOperation, error) {
	kind, name, err := w.gardener.Referrer(ctx, binding)
	if err != nil {
		return nil, err
	}
	field := "credentialsBindingName"
	if kind == "SecretBinding" {
		field = "secretBindingName"
	}
	return []events.PatchOperation{{Op: "add", Path: "/spec/" + field, Value: name}}, nil
}

// binding is the cache's view of a binding; one that the cache has lost is
// described by its pool.
func (w *Worker) binding(name string, pool engine.Pool) engine.Binding {
	if b, ok := w.gardener.Cached(name); ok {
		return b
	}
	return engine.Binding{
		Name: name, Namespace: w.namespace, Kind: w.kind,
		HyperscalerType: pool.HyperscalerType, EUAccess: pool.EUAccess, Shared: pool.Shared,
	}
}

// answer is what the reply to a provision is made of.
type answer struct {
	event     events.Event
	match     rule.Match
	chosen    *policy.Decision // where the event asks for an interface
	pool      engine.Pool
	elsewhere bool // the pool is not the one that the rule gives today
	terms     account.Terms
	decision  account.Decision
	blocks    []events.Network
	full      error // why there is no room for the cluster's blocks, nil for none
}

// lacks is what a request waits for that finds nothing.
func (a answer) lacks() events.WaitingReason {
	if a.full != nil {
		return events.WaitingNetworkFull
	}
	return events.WaitingPoolEmpty
}

func (a answer) reply(status events.Status) events.Reply {
	p := a.event.Provision
	r := events.Reply{
		RequestID: a.event.ID, RuntimeID: p.RuntimeID, Status: status,
		GlobalAccountID: p.GlobalAccountID, Plan: p.Plan, Provider: a.match.Provider,
		ShootName: p.ShootName, Cluster: p.Cluster,
		Decision: &events.Decision{
			Sequence: a.decision.Sequence, Pool: a.pool.Name(), Considered: considered(a.decision.Considered),
		},
	}
	if !a.elsewhere {
		r.Decision.Rule, r.Decision.RuleNumber = a.match.Rule, a.match.RuleNumber
		r.Decision.LabelSelector = a.selector()
	}
	if a.terms.Several {
		r.Limit = a.terms.Limit
	}
	return r
}

// selector is the one that the binding was found by, or would have been.
func (a answer) selector() string {
	switch {
	case a.pool.Shared, a.decision.Origin == account.Claimed, a.decision.Origin == "":
		return a.claimSelector()
	default:
		return a.match.TenantSelector()
	}
}

// claimSelector finds the bindings that could still serve the request.
func (a answer) claimSelector() string {
	if a.pool.Shared {
		return rule.SharedSelector(a.pool)
	}
	return rule.ClaimSelector(a.pool)
}

func (a answer) assigned(b engine.Binding, shoot []events.PatchOperation) events.Reply {
	r := a.reply(events.StatusAssigned)
	r.Implementation = implementation(a.chosen)
	r.Clusters = &a.decision.Count
	r.Binding = &events.Binding{
		Name: b.Name, Namespace: b.Namespace, Kind: b.Kind, HyperscalerType: b.HyperscalerType,
		Shared: b.Shared, EUAccess: b.EUAccess, Generation: a.decision.Generation,
		Claimed: a.decision.Origin == account.Claimed && (!a.decision.Repeated || a.decision.Request == a.event.ID),
	}
	r.Network = a.blocks
	r.ShootPatch = slices.Concat(shoot, patch(a.blocks))
	return r
}

func (a answer) exhausted() events.Reply {
	r := a.reply(events.StatusRejected)
	if a.full != nil {
		r.Error = replyError(a.full)
		return r
	}
	hint := "add a binding that matches " + a.claimSelector() + " and ask again under a new id"
	r.Error = replyError(&engine.Error{
		Code: engine.CodePoolExhausted,
		Err:  fmt.Errorf("pool %s has no binding for global account %s", a.pool.Name(), a.event.Provision.GlobalAccountID),
		Hint: hint,
	})
	return r
}

// superseded answers a provision whose runtime is gone; pool is "" where it went
// before it had any.
func superseded(e events.Event, pool string, sequence int64) events.Reply {
	r := rejected(e, &engine.Error{
		Code: engine.CodeSuperseded,
		Err:  fmt.Errorf("runtime %s was deprovisioned before its provision was served", e.RuntimeID),
		Hint: "provision a new runtime under a new runtime id",
	})
	r.Decision = &events.Decision{Sequence: sequence, Pool: pool}
	return r
}

// rejected answers any event with an error, as far as the event could be read.
func rejected(e events.Event, err error) events.Reply {
	r := events.Reply{RequestID: e.ID, RuntimeID: e.RuntimeID, Status: events.StatusRejected, Error: replyError(err)}
	if p := e.Provision; p != nil {
		r.GlobalAccountID, r.Plan, r.Provider = p.GlobalAccountID, p.Plan, p.Provider
		r.ShootName, r.Cluster = p.ShootName, p.Cluster
	}
	return r
}

func replyError(err error) *events.ReplyError {
	code := engine.CodeOf(err)
	return &events.ReplyError{Code: code, Message: err.Error(), Retryable: code.Retryable()}
}

func considered(in []account.Considered) []events.Considered {
	out := make([]events.Considered, 0, len(in))
	for _, c := range in {
		out = append(out, events.Considered{Binding: c.Binding, Clusters: c.Clusters, Verdict: string(c.Verdict)})
	}
	return out
}
