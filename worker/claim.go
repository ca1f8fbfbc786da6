package worker

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/bulkhead"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// firstSuggestions is the number of unclaimed bindings that assign offers first, if none of the
// tenant's own fits. Each further attempt offers eight times as many.
const firstSuggestions = 8

// refusals is the maximum number of bindings that one search skips because the API refuses to label them.
// If it refuses more, the search fails: the cause is probably a missing permission and not the bindings.
const refusals = 16

// claimRequest describes a runtime that needs a binding.
type claimRequest struct {
	runtime  string
	request  string
	tenant   string
	pool     engine.Pool
	terms    account.Terms
	internal bool           // the tenant may keep using its internal bindings
	inTurn   bool           // the request may claim although others wait
	now      bool           // if no binding fits, the request is refused instead of waiting
	trace    *decisionTrace // may be nil
}

// candidates are the bindings that one search has read: their labels, which scripts get as input, and
// their resourceVersions, which fence its writes (rule 2).
type candidates struct {
	order   []string
	seen    map[string]candidate
	left    map[string]bool // bindings that the search leaves out, since a claim of them cannot succeed
	refused int             // number of bindings that the API has refused to label
}

type candidate struct {
	binding engine.Binding
	live    bool // read from the API, not from the cache
}

// passOver excludes a binding that the API refuses to label, and reports whether the search may go on: false
// after more than refusals such bindings.
func (v *candidates) passOver(binding string) bool {
	v.leaveOut(binding)
	v.refused++
	return v.refused <= refusals
}

// leaveOut excludes a binding from the search.
func (v *candidates) leaveOut(binding string) {
	if v.left == nil {
		v.left = map[string]bool{}
	}
	v.left[binding] = true
}

func (v *candidates) put(b engine.Binding, live bool) {
	if v.seen == nil {
		v.seen = map[string]candidate{}
	}
	if _, known := v.seen[b.Name]; !known {
		v.order = append(v.order, b.Name)
	}
	v.seen[b.Name] = candidate{b, live}
}

// offer adds bindings from the cache. It does not replace those that were read from the API.
func (v *candidates) offer(suggested []engine.Binding) {
	for _, b := range suggested {
		if known, ok := v.seen[b.Name]; !ok || !known.live {
			v.put(b, false)
		}
	}
}

// suggestions returns the candidates for a script. seen are the clean ones of the pool that are unclaimed or the
// tenant's own, or any tenant's if the pool is shared; a claim of another pool's binding would be revoked. barred are
// those in seen that the script must not choose: left out, held back, or internal, except the tenant's own if
// job.internal is true. They are in seen because the script may have chosen one before, and needs its label for the
// generation of that claim (rule 3).
func (v *candidates) suggestions(job claimRequest) (seen []account.Seen, barred []string) {
	seen = make([]account.Seen, 0, len(v.order))
	for _, name := range v.order {
		b := v.seen[name].binding
		mine := b.Tenant == job.tenant && !job.pool.Shared
		if b.Pool() != job.pool || b.Dirty || b.Tenant != "" && !mine && !job.pool.Shared {
			continue
		}
		seen = append(seen, account.Seen{Binding: name, Generation: b.Generation, Mine: mine})
		if v.left[name] || b.HeldBack() || b.Internal && !(mine && job.internal) {
			barred = append(barred, name)
		}
	}
	return seen, barred
}

// claimAttempt is the state of one search for a binding.
type claimAttempt struct {
	claimRequest
	seen    *candidates
	barred  []string         // the tenant's and unclaimed bindings that the cache shows as barred
	request account.Request  // its Epoch is from before the read of the directory, or from the script that read it
	decided account.Decision // decision of locateFor that assign has not used yet; no outcome if there is none
}

func (h *Handler) beginClaim(job claimRequest) *claimAttempt {
	s := &claimAttempt{claimRequest: job, seen: &candidates{}, barred: h.gardener.Barred(job.pool, job.tenant, job.internal), request: account.Request{
		Runtime: job.runtime, Request: job.request, Tenant: job.tenant, Shared: job.pool.Shared, Terms: job.terms, InTurn: job.inTurn, Now: job.now,
	}}
	if job.pool.Shared {
		s.seen.offer(h.gardener.Shared(job.pool))
		s.request.All = true
	}
	return s
}

// beginClaimIn begins a new search in another pool. It keeps the epoch of s.
func (h *Handler) beginClaimIn(pool engine.Pool, s *claimAttempt) *claimAttempt {
	job, epoch := s.claimRequest, s.request.Epoch
	job.pool = pool
	s = h.beginClaim(job)
	s.request.Epoch = epoch
	return s
}

// locateFor finds the place of a runtime that needs a binding. If the worker allots no network blocks, which
// have to be acquired before the decision, one script finds the place and decides. If that script has
// decided, job.decided is the decision.
func (h *Handler) locateFor(ctx context.Context, job *claimAttempt) (place account.Place, err error) {
	pool := job.pool.Name()
	if !h.ranges.Allots() {
		decided, err := h.askForBinding(ctx, job, h.counters.LocateAndAssign)
		if err != nil {
			return account.Place{}, h.notBuilt(err, pool)
		}
		if decided.Outcome != "" {
			job.decided, job.request.Epoch = decided, decided.Epoch
			return account.Place{Pool: pool}, nil
		}
	}
	place, job.request.Epoch, err = h.locate(ctx, job.runtime, pool)
	return place, err
}

// assign finds a binding for a runtime. If its claim is not confirmed yet, assign writes the label and confirms the
// claim. The decision that it returns without an error may be answered. If a write finds the binding changed or gone,
// or its result is unknown, assign starts over with the script, until ctx ends.
func (h *Handler) assign(ctx context.Context, job *claimAttempt) (decision account.Decision, err error) {
	for n := firstSuggestions; ; {
		decision, job.decided = job.decided, account.Decision{}
		if decision.Outcome == "" {
			if decision, err = h.askForBinding(ctx, job, h.counters.Assign); err != nil {
				return decision, err
			}
		}
		job.trace.decided(h.now(), &decision)
		h.observer.Decision(ctx, observe.Decision{Pool: job.pool.Name(), Runtime: job.runtime, Tenant: job.tenant, Decision: decision})
		if decision.Outcome == account.Short {
			var suggested []engine.Binding
			suggested, job.request.All = h.gardener.Claimable(job.pool, job.tenant, job.internal, n)
			job.seen.offer(suggested)
			n *= 8
			continue
		}
		if decision.Outcome != account.Assigned {
			return decision, nil
		}
		h.observer.Step(ctx, observe.StepAssigned)
		if decision.Confirmed {
			return decision, nil
		}
		confirmed, err := h.confirmClaim(ctx, job.claimRequest, decision, job.seen)
		if err != nil {
			return decision, err
		}
		if confirmed {
			h.observer.Step(ctx, observe.StepConfirmed)
			decision.Confirmed = true
			return decision, nil
		}
		if err := ctx.Err(); err != nil {
			return decision, context.Cause(ctx)
		}
	}
}

// askForBinding calls ask with the candidates seen so far, in a span.
func (h *Handler) askForBinding(
	ctx context.Context, job *claimAttempt, ask func(context.Context, string, account.Request) (account.Decision, error),
) (account.Decision, error) {
	pool := job.pool.Name()
	seen, barred := job.seen.suggestions(job.claimRequest)
	job.request.Seen, job.request.Barred = seen, slices.Concat(job.barred, barred)
	ctx, end := h.span(ctx, "assign", attribute.String("hap.pool", pool), attribute.Int("hap.suggestions", len(job.request.Seen)))
	defer end()
	decision, err := ask(ctx, pool, job.request)
	if err == nil {
		trace.SpanFromContext(ctx).SetAttributes(attribute.String("hap.decision", string(decision.Outcome)),
			attribute.String("hap.binding", decision.Binding), attribute.Int64("hap.sequence", decision.Sequence))
	}
	return decision, err
}

// confirmClaim makes sure that the label of the binding carries tenant, generation and epoch, and
// confirms the claim (rule 4). If it returns false without an error, the caller starts over with the
// script; seen then has the label that was read last, or leaves the binding out.
func (h *Handler) confirmClaim(ctx context.Context, job claimRequest, d account.Decision, seen *candidates) (bool, error) {
	claim := account.Claim{Runtime: job.runtime, Binding: d.Binding, Generation: d.Generation, Sequence: d.Sequence, Epoch: d.Epoch}
	known, ok := seen.seen[d.Binding]
	if !ok {
		// Not read yet in this search: rule 2 wants the read before the script.
		return false, h.look(ctx, d.Binding, seen)
	}
	b, mark := known.binding, engine.Mark{Tenant: job.tenant, Generation: d.Generation, Epoch: d.Epoch}
	switch {
	case b.Dirty || (b.Tenant != "" && b.Tenant != job.tenant) || b.Pool() != job.pool,
		b.Tenant == "" && (b.Deleting || d.Claiming && (b.HeldBack() || b.Internal)): // has become so since the cache offered it
		if !known.live {
			// The cache may be out of date. Revoke only by what the API says.
			return false, h.read(ctx, d.Binding, seen)
		}
		_, err := h.counters.Revoke(ctx, job.pool.Name(), claim)
		seen.put(b, false) // rule 2: a later claim of it needs a new read
		job.trace.attempt(h.now(), d.Binding, observe.ClaimRevoked)
		happened(ctx, happenedClaim+string(observe.ClaimRevoked), nil, attribute.String("hap.binding", d.Binding))
		h.observer.Claim(ctx, observe.Claim{Binding: d.Binding, Pool: job.pool.Name(), Runtime: job.runtime, Result: observe.ClaimRevoked, Err: err})
		return false, err
	case b.Tenant == mark.Tenant && b.Generation == mark.Generation && b.Epoch == mark.Epoch:
		if !known.live {
			// The cache may still show a label that was removed since.
			return false, h.read(ctx, d.Binding, seen)
		}
		return h.counters.Confirm(ctx, job.pool.Name(), claim)
	}
	unclaimed := d.Claiming && b.Tenant == "" // no request was answered with the claim, so another binding may be chosen
	if unclaimed {
		if passed, err := h.passOverShared(ctx, job, claim, seen); passed || err != nil {
			return false, err
		}
	}
	written, err := h.label(ctx, job, b, mark)
	if engine.OutOfDate(err) {
		return false, h.read(ctx, d.Binding, seen)
	}
	if errors.Is(err, engine.ErrRefused) && unclaimed && seen.passOver(d.Binding) {
		_, err = h.counters.Revoke(ctx, job.pool.Name(), claim)
		return false, err
	}
	if err != nil {
		return false, err
	}
	seen.put(written, true)
	h.observer.Step(ctx, observe.StepLabelled)
	return h.counters.Confirm(ctx, job.pool.Name(), claim)
}

// label writes the mark on the binding, fenced by the resourceVersion of seen. It reports the result to the observer,
// except a bulkhead.Error.
func (h *Handler) label(ctx context.Context, job claimRequest, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	ctx, end := h.span(ctx, "claim", attribute.String("hap.binding", seen.Name))
	defer end()
	begin := h.now()
	written, err := h.gardener.Claim(ctx, seen, mark)
	job.trace.attempt(h.now(), seen.Name, claimResult(err))
	if err != nil {
		happened(ctx, happenedClaim+string(claimResult(err)), err)
	}
	if bulkhead.Held(err) {
		return written, err // Gardener was not asked, or not again
	}
	h.observer.Claim(ctx, observe.Claim{
		Binding: seen.Name, Pool: job.pool.Name(), Runtime: job.runtime,
		Result: claimResult(err), Duration: h.since(begin), Err: err,
	})
	return written, err
}

func claimResult(err error) observe.ClaimResult {
	switch {
	case err == nil:
		return observe.ClaimWritten
	case errors.Is(err, engine.ErrConflict):
		return observe.ClaimConflict
	case errors.Is(err, engine.ErrUnknownResult):
		return observe.ClaimUnknown
	case errors.Is(err, engine.ErrRefused):
		return observe.ClaimRefused
	default:
		return observe.ClaimUnavailable
	}
}

// look puts the cached binding into seen, or reads it from the API if the cache does not have it.
func (h *Handler) look(ctx context.Context, binding string, seen *candidates) error {
	if b, ok := h.gardener.Cached(binding); ok {
		seen.put(b, false)
		return nil
	}
	return h.read(ctx, binding, seen)
}

// read reads the binding from the API into seen. A deleted binding counts as dirty, so that a claim of it
// is revoked.
func (h *Handler) read(ctx context.Context, binding string, seen *candidates) error {
	b, err := h.gardener.Get(ctx, binding)
	if engine.CodeOf(err) == engine.CodeUnknownBinding {
		b, err = engine.Binding{Name: binding, Dirty: true}, nil
	}
	if err != nil {
		return err
	}
	seen.put(b, true)
	return nil
}
