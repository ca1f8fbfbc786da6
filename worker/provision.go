package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// provision decides a provision event: it matches the rules, takes network blocks and finds a binding. It
// returns the reply to publish.
func (h *Handler) provision(ctx context.Context, a *attempt) (events.Reply, error) {
	reply, claim, err := h.match(a)
	if err != nil {
		return events.Reply{}, err
	}
	place, err := h.locateFor(ctx, claim)
	if err != nil {
		return events.Reply{}, err
	}
	h.observer.Step(ctx, observe.StepLocated)
	if !place.Gone && place.Pool != claim.pool.Name() {
		if place, err = h.follow(ctx, a, claim, place); err != nil {
			return events.Reply{}, err
		}
	}
	if place.Gone {
		return superseded(a.event, "", place.Sequence), nil
	}
	if reply.elsewhere = place.Pool != claim.pool.Name(); reply.elsewhere {
		// The runtime has an account of that pool and keeps it (I10), or waits for one and may not leave yet
		// (rule 16).
		claim = h.beginClaimIn(engine.ParsePool(place.Pool), claim)
		a.markElsewhere(h.movesAt(a))
	}
	reply.place, claim.request.After = place, place.Sequence
	reply.pool = claim.pool
	a.markPlaced(place.Pool)
	// Acquire the blocks before the account: a request that waits for blocks then takes no account. One that
	// waits for an account returns its blocks.
	reply.held, err = h.ranges.Acquire(ctx, a.event, a.relier())
	a.markHeld(reply.held)
	if err != nil {
		return events.Reply{}, err
	}
	if reply.held.Full != nil {
		if reply.decision.Outcome, err = h.outcomeWithoutRoom(ctx, place, claim); err != nil {
			return events.Reply{}, err
		}
		return h.withoutBlocks(ctx, a, reply)
	}
	reply.decision, err = h.assign(ctx, claim)
	a.recordDecision(&reply)
	h.epochs.learn(place.Pool, reply.decision.Epoch, err)
	if err != nil {
		return events.Reply{}, h.notBuilt(err, place.Pool)
	}
	if reply.decision.Outcome == account.Moved {
		return h.comeAgain(ctx, a, place, reply.decision.Sequence)
	}
	if reply.decision.Outcome != account.Assigned {
		return h.withoutBlocks(ctx, a, reply)
	}
	return h.replyTo(ctx, a, reply)
}

// outcomeWithoutRoom returns the outcome for a request that finds no blocks: Waiting, or Foreign for another tenant's
// runtime (rule 3), which assign would have found.
func (h *Handler) outcomeWithoutRoom(ctx context.Context, place account.Place, claim *claimAttempt) (account.Outcome, error) {
	rt, err := h.counters.RuntimeIn(ctx, place.Pool, claim.runtime)
	if err == nil && rt.Foreign(claim.tenant) {
		return account.Foreign, nil
	}
	return account.Waiting, h.notBuilt(err, place.Pool)
}

// withoutBlocks calls giveBack, and returns the reply to an event that is assigned no account now.
func (h *Handler) withoutBlocks(ctx context.Context, a *attempt, reply answer) (events.Reply, error) {
	if err := h.giveBack(ctx, a); err != nil {
		return events.Reply{}, err
	}
	return h.replyTo(ctx, a, reply)
}

// match applies the policy and the rules to the event, and begins the search for a binding.
func (h *Handler) match(a *attempt) (answer, *claimAttempt, error) {
	p, rules := a.event.Provision, h.rules.Get()
	request, chosen, err := h.request(p, rules)
	if err != nil {
		return answer{}, nil, err
	}
	a.trace.asks(rules.Rules(), request)
	match, err := rules.Rules().Match(request)
	if err != nil {
		return answer{}, nil, err
	}
	terms := rules.Terms(p.GlobalAccountID, match.Provider)
	a.trace.searches(terms)
	return answer{event: a.event, match: match, chosen: chosen, terms: terms}, h.beginClaim(claimRequest{
		runtime: p.RuntimeID, request: a.event.ID, tenant: p.GlobalAccountID, pool: match.Pool, terms: terms,
		internal: rules.Internal(p.GlobalAccountID), inTurn: a.inTurn, now: !h.clock.Now().Before(h.waitsUntil(a)), trace: &a.trace,
	}), nil
}

// request returns the request to the rules, and the choice of the policy if the event asks for an interface,
// otherwise nil.
func (h *Handler) request(p *events.Provision, rules *terms.Decisions) (rule.Request, *policy.Decision, error) {
	r := rule.Request{
		Plan: p.Plan, PlatformRegion: p.PlatformRegion, HyperscalerRegion: p.HyperscalerRegion, Provider: p.Provider, Tenant: p.GlobalAccountID,
	}
	if p.Interface == nil {
		return r, nil, nil
	}
	chosen, err := h.choose(p.Interface)
	if err == nil && r.Provider == "" {
		r.Provider = providerOf(chosen, rules.Rules().Plans()[p.Plan])
	}
	return r, chosen, err
}

// giveBack returns the blocks of an attempt that ends without an assignment. Another attempt that
// holds the same blocks keeps them: it may be about to answer with them. giveBack wakes no waiting
// requests. The blocks were free before the attempt took them, and a request that finds no account
// would wake itself for ever.
//
// If the attempt has published a reply that is or may be stored, that reply may name the blocks. Then
// outlive returns them after the next waiting reply, like the blocks of other attempts.
func (h *Handler) giveBack(ctx context.Context, a *attempt) error {
	a.rename()
	if a.stored.sent {
		a.markLeft(append(a.blocks.left, a.blocks.names...)...)
		a.markReturned(len(a.blocks.names))
		return nil
	}
	var left []string
	for _, name := range a.blocks.names {
		var err error
		if _, left, err = h.ranges.Return(ctx, a.event, name); err != nil {
			return err
		}
		a.markReturned(1)
	}
	a.markLeft(left...)
	return nil
}

// abandon returns the blocks of a failed attempt, so that others can take them before the retry.
// If a reply was published, it may name the blocks, and abandon keeps them. The blocks that abandon keeps,
// or fails to return, are left to the next attempt.
func (h *Handler) abandon(ctx context.Context, a *attempt) {
	if a.pool == "" || a.stored.sent || !h.ranges.Allots() || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.ackWait/3)
	defer cancel()
	if err := h.giveBack(ctx, a); err != nil {
		h.observer.Retry(ctx, observe.Retry{Type: "return blocks", ID: a.event.ID, Err: err})
	}
}

// outlive returns the blocks of the attempts in a.blocks.left. It is called after a waiting reply was
// stored. None of these attempts has read that reply, so none can store an answer with these blocks any
// more. If they are still running, they acquire blocks again (rule 12).
func (h *Handler) outlive(ctx context.Context, a *attempt) error {
	for _, relier := range a.blocks.left {
		if err := h.returnRanges(ctx, a.event, relier); err != nil {
			return err
		}
	}
	a.markLeft()
	return nil
}

// returnRanges returns the blocks of the attempt by, or of all attempts if by is the id of the event. If that frees
// any, it wakes requests that wait for blocks. Call it only when no answer can name the blocks any more.
func (h *Handler) returnRanges(ctx context.Context, e events.Event, by string) error {
	freed, _, err := h.ranges.Return(ctx, e, by)
	if freed {
		h.WakeNetwork()
	}
	return err
}

// replyTo turns a decision into the reply. At its deadline, a waiting request is first refused in
// Redis, so that a redelivery finds the same result.
func (h *Handler) replyTo(ctx context.Context, a *attempt, reply answer) (events.Reply, error) {
	if reply.decision.Outcome == account.Waiting {
		if now := h.clock.Now(); now.Before(h.waitsUntil(a)) {
			return reply.waiting(reply.lacks(), a.waits.until), nil
		}
		refused, err := h.counters.Refuse(ctx, reply.place, reply.event.RuntimeID, reply.event.ID, reply.event.Provision.GlobalAccountID)
		if err != nil {
			return events.Reply{}, h.notBuilt(err, reply.place.Pool)
		}
		if refused.Outcome == account.Assigned && reply.held.Full != nil {
			// There are no network blocks for the request at its deadline, so it is rejected
			// (NetworkExhausted). If another request was assigned the runtime's account too, that
			// request keeps it: the answer names neither the account nor a sequence. Otherwise the
			// assignment is taken back (rule 11).
			return events.Reply{}, reply.held.Full
		}
		if refused.Outcome == account.Moved { // assign was not called, for lack of blocks
			return h.comeAgain(ctx, a, reply.place, refused.Sequence)
		}
		if refused.Outcome == account.Assigned {
			return events.Reply{}, fmt.Errorf("runtime %s was assigned meanwhile, at its deadline: the request is decided again, and answered with that account", reply.event.RuntimeID)
		}
		refused.Considered = reply.decision.Considered
		reply.decision = refused
	}
	switch reply.decision.Outcome {
	case account.Assigned:
		patch, err := h.shootPatch(ctx, reply.decision.Binding)
		if err != nil {
			return events.Reply{}, err
		}
		return reply.assigned(h.binding(reply.decision.Binding, reply.pool), patch), nil
	case account.Foreign:
		return events.Reply{}, foreignRuntime(reply.event)
	case account.Superseded:
		return superseded(reply.event, reply.pool.Name(), reply.decision.Sequence), nil
	case account.Refused:
		return reply.exhausted(), nil
	default:
		return events.Reply{}, fmt.Errorf("assign of runtime %s ended as %q", reply.event.RuntimeID, reply.decision.Outcome)
	}
}

// shootPatch returns the patch with which a Shoot uses a binding. No Shoot can use a Secret to
// which nothing refers: the request is then rejected, and what it holds is taken back.
func (h *Handler) shootPatch(ctx context.Context, binding string) ([]events.PatchOperation, error) {
	kind, name, err := h.gardener.Referrer(ctx, binding)
	if err != nil {
		return nil, err
	}
	field := "credentialsBindingName"
	if kind == "SecretBinding" {
		field = "secretBindingName"
	}
	return []events.PatchOperation{{Op: "add", Path: "/spec/" + field, Value: name}}, nil
}

// binding returns the cached binding. If the cache no longer has it, binding describes it by its
// pool.
func (h *Handler) binding(name string, pool engine.Pool) engine.Binding {
	if b, ok := h.gardener.Cached(name); ok {
		return b
	}
	return engine.Binding{
		Name: name, Namespace: h.namespace, Kind: h.kind,
		HyperscalerType: pool.HyperscalerType, EUAccess: pool.EUAccess, Shared: pool.Shared,
	}
}

// answer collects the data for the reply to a provision.
type answer struct {
	event     events.Event
	match     rule.Match
	chosen    *policy.Decision // set if the event asks for an interface
	pool      engine.Pool
	place     account.Place
	elsewhere bool // the rule now leads to another pool than that of place
	terms     account.Terms
	decision  account.Decision
	held      ranges.Held
}

// lacks returns the reason for which a request waits.
func (a answer) lacks() events.WaitingReason {
	switch {
	case a.held.Full != nil && a.held.Missing:
		return events.WaitingNetworkMissing
	case a.held.Full != nil:
		return events.WaitingNetworkFull
	}
	return events.WaitingPoolEmpty
}

func (a answer) reply(status events.Status) events.Reply {
	r := replyFor(a.event, status)
	r.Provider, r.Limit = a.match.Provider, a.terms.LimitIn(a.pool)
	r.Decision = &events.Decision{Sequence: a.decision.Sequence, Pool: a.pool.Name(), Considered: considered(a.decision.Considered)}
	if !a.elsewhere {
		r.Decision.Rule, r.Decision.RuleNumber = a.match.Rule, a.match.RuleNumber
		r.Decision.LabelSelector = a.selector()
	}
	return r
}

// selector returns the label selector of the bindings among which one was searched: those that any tenant may
// get if the pool is shared, the binding is a new claim or there is none; otherwise the tenant's own.
func (a answer) selector() string {
	if a.pool.Shared || a.decision.Origin == account.Claimed || a.decision.Origin == "" {
		return a.match.Available(a.pool)
	}
	return a.match.TenantSelector()
}

func (a answer) assigned(b engine.Binding, shoot []events.PatchOperation) events.Reply {
	r := a.reply(events.StatusAssigned)
	if a.chosen != nil {
		r.Implementation = implementation(a.chosen)
	}
	r.Clusters = &a.decision.Count
	r.Binding = bindingFor(b, a.decision.Generation)
	r.Binding.Claimed = a.decision.Origin == account.Claimed && (!a.decision.Repeated || a.decision.Request == a.event.ID)
	r.Network, r.NetworkPending = a.held.Blocks(), a.held.Missing
	r.ShootPatch = slices.Concat(shoot, a.held.Patch())
	r.ShootMergePatch = events.MergePatch(r.ShootPatch)
	return r
}

func (a answer) exhausted() events.Reply {
	r := a.reply(events.StatusRejected)
	if a.held.Full != nil {
		r.Error = replyError(a.held.Full)
		return r
	}
	r.Error = replyError(&engine.Error{
		Code: engine.CodePoolExhausted,
		Err:  fmt.Errorf("pool %s has no available binding for global account %s", a.pool.Name(), a.event.Provision.GlobalAccountID),
		Hint: "add a binding that matches " + a.match.Available(a.pool) + " and ask again under a new id",
	})
	return r
}

// superseded returns the answer to a provision whose runtime is gone. pool is "" if the runtime never had a pool, or
// is about to be forgotten.
func superseded(e events.Event, pool string, sequence int64) events.Reply {
	r := rejected(e, &engine.Error{
		Code: engine.CodeSuperseded,
		Err:  fmt.Errorf("runtime %s was deprovisioned before its provision was served", e.RuntimeID),
		Hint: "provision a new runtime under a new runtime id",
	})
	r.Decision = &events.Decision{Sequence: sequence, Pool: pool}
	return r
}

// rejected returns an answer with an error, for any event.
func rejected(e events.Event, err error) events.Reply {
	r := replyFor(e, events.StatusRejected)
	r.Error = replyError(err)
	return r
}

// replyFor returns a reply with the fields of its event that could be read. It names the event's tenant, so that it
// never stands for another tenant's event under the same id (Reply.Answers).
func replyFor(e events.Event, status events.Status) events.Reply {
	r := events.Reply{RequestID: e.ID, RuntimeID: e.RuntimeID, GlobalAccountID: e.Tenant(), Status: status}
	if p := e.Provision; p != nil {
		r.Plan, r.Provider, r.ShootName, r.Cluster = p.Plan, p.Provider, p.ShootName, p.Cluster
	}
	return r
}

// brief returns the shortest form of a reply, for the case that NATS rejects the full one as too
// large. Of the decision it keeps sequence, rule and pool. If no account is assigned, it omits the cluster.
func brief(r events.Reply) events.Reply {
	if r.Status != events.StatusAssigned {
		r.Cluster = nil
	}
	if d := r.Decision; d != nil {
		r.Decision = &events.Decision{Sequence: d.Sequence, Rule: d.Rule, RuleNumber: d.RuleNumber, Pool: d.Pool}
	}
	return r
}

// bindingFor returns a binding as a reply has it.
func bindingFor(b engine.Binding, generation int64) *events.Binding {
	return &events.Binding{
		Name: b.Name, Namespace: b.Namespace, Kind: b.Kind, HyperscalerType: b.HyperscalerType,
		Shared: b.Shared, EUAccess: b.EUAccess, Generation: generation,
	}
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
