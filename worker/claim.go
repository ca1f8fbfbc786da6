package worker

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// firstSuggestions is how many unclaimed bindings a decision is offered when the
// tenant's own did not do; each further attempt offers eight times as many.
const firstSuggestions = 8

// refusals is how many bindings one search passes over because the server refuses
// to mark them. With more it is rather the right that is missing than their Secrets.
const refusals = 16

// want is a runtime in search of a binding.
type want struct {
	runtime  string
	request  string
	tenant   string
	pool     engine.Pool
	terms    account.Terms
	internal bool   // the tenant may keep using internal bindings of its own
	inTurn   bool   // it may claim although others wait
	trail    *trail // may be nil
}

// views are the bindings that one search has read: the label facts that scripts
// are given, and the resourceVersions that fence its writes (rule 2).
type views struct {
	order   []string
	seen    map[string]view
	refused map[string]bool // may not be marked, so no claim of them succeeds
}

type view struct {
	binding engine.Binding
	live    bool // read from the source, not from the cache
}

func newViews() *views { return &views{seen: map[string]view{}, refused: map[string]bool{}} }

// passOver takes a binding out of the search, and reports whether it may go on.
func (v *views) passOver(binding string) bool {
	v.refused[binding] = true
	return len(v.refused) <= refusals
}

func (v *views) put(b engine.Binding, live bool) {
	if _, known := v.seen[b.Name]; !known {
		v.order = append(v.order, b.Name)
	}
	v.seen[b.Name] = view{b, live}
}

// offer adds what the cache suggests; what was read from the source stands.
func (v *views) offer(suggested []engine.Binding) {
	for _, b := range suggested {
		if known, ok := v.seen[b.Name]; !ok || !known.live {
			v.put(b, false)
		}
	}
}

// suggestions are the views that a script may choose from. One that turned out to
// be in another pool is none: its claim was revoked, and would be again.
func (v *views) suggestions(job want) []account.Seen {
	out := make([]account.Seen, 0, len(v.order))
	for _, name := range v.order {
		b := v.seen[name].binding
		mine := b.Tenant == job.tenant && !job.pool.Shared
		if v.refused[name] || b.Pool() != job.pool || b.Dirty || b.Cordoned || (b.Internal && !(mine && job.internal)) {
			continue
		}
		if b.Tenant == "" || mine || job.pool.Shared {
			out = append(out, account.Seen{Binding: name, Generation: b.Generation, Mine: mine})
		}
	}
	return out
}

// search is a runtime's way to its binding, as far as it has come.
type search struct {
	want
	seen    *views
	request account.Request  // its Epoch is the pool's of before the directory was asked
	decided account.Decision // what Redis has said already, without an outcome where it was not asked
}

func (w *Worker) search(job want) *search {
	s := &search{want: job, seen: newViews(), request: account.Request{
		Runtime: job.runtime, Request: job.request, Tenant: job.tenant, Shared: job.pool.Shared, Terms: job.terms, InTurn: job.inTurn,
		Barred: w.gardener.Barred(job.pool, job.tenant, job.internal),
	}}
	if job.pool.Shared {
		s.seen.offer(w.gardener.Shared(job.pool))
		s.request.All = true
	}
	return s
}

// assign finds a binding for a runtime and makes sure that its label says so:
// what it returns may be answered. It goes back to the script after every write
// that did not certainly succeed, and ends when ctx does.
func (w *Worker) assign(ctx context.Context, job *search) (decision account.Decision, err error) {
	for n := firstSuggestions; ; {
		decision, job.decided = job.decided, account.Decision{}
		if decision.Outcome == "" {
			if decision, err = w.askForBinding(ctx, job, w.counters.Assign); err != nil {
				return decision, err
			}
		}
		job.trail.decided(w.now(), &decision)
		w.listener.decision(ctx, DecisionInfo{Pool: job.pool.Name(), Runtime: job.runtime, Tenant: job.tenant, Decision: decision})
		if decision.Outcome == account.Short {
			var suggested []engine.Binding
			suggested, job.request.All = w.gardener.Claimable(job.pool, job.tenant, job.internal, n)
			job.seen.offer(suggested)
			n *= 8
			continue
		}
		if decision.Outcome != account.Assigned {
			return decision, nil
		}
		w.listener.step(ctx, StepAssigned)
		if decision.Confirmed {
			return decision, nil
		}
		confirmed, err := w.makeSure(ctx, job.want, decision, job.seen)
		if err != nil {
			return decision, err
		}
		if confirmed {
			w.listener.step(ctx, StepConfirmed)
			decision.Confirmed = true
			return decision, nil
		}
		if err := ctx.Err(); err != nil {
			return decision, context.Cause(ctx)
		}
	}
}

// askForBinding asks Redis, in whichever way, with what has been seen so far.
func (w *Worker) askForBinding(
	ctx context.Context, job *search, ask func(context.Context, string, account.Request) (account.Decision, error),
) (account.Decision, error) {
	pool := job.pool.Name()
	job.request.Seen = job.seen.suggestions(job.want)
	ctx, end := w.span(ctx, "assign", attribute.String("hap.pool", pool), attribute.Int("hap.suggestions", len(job.request.Seen)))
	defer end()
	decision, err := ask(ctx, pool, job.request)
	if err == nil {
		trace.SpanFromContext(ctx).SetAttributes(attribute.String("hap.decision", string(decision.Outcome)),
			attribute.String("hap.binding", decision.Binding), attribute.Int64("hap.sequence", decision.Sequence))
	}
	return decision, err
}

// makeSure is rule 4: it sees to it that the label of the decision's binding
// carries tenant, generation and epoch, and confirms. False, without an error,
// means: back to the script, with what was learnt in seen.
func (w *Worker) makeSure(ctx context.Context, job want, d account.Decision, seen *views) (bool, error) {
	claim := account.Claim{Runtime: job.runtime, Binding: d.Binding, Generation: d.Generation, Sequence: d.Sequence, Epoch: d.Epoch}
	known, ok := seen.seen[d.Binding]
	if !ok {
		// Not read yet in this search: rule 2 wants the read before the script.
		return false, w.look(ctx, d.Binding, seen)
	}
	b, mark := known.binding, engine.Mark{Tenant: job.tenant, Generation: d.Generation, Epoch: d.Epoch}
	switch {
	case b.Dirty || (b.Tenant != "" && b.Tenant != job.tenant) || b.Pool() != job.pool:
		if !known.live {
			// The cache may be behind; only the source may cost another its claim.
			return false, w.read(ctx, d.Binding, seen)
		}
		_, err := w.counters.Revoke(ctx, job.pool.Name(), claim)
		seen.put(b, false) // rule 2: the next claim of it is not judged by this look
		job.trail.attempt(w.now(), d.Binding, ClaimRevoked)
		happened(ctx, happenedClaim+string(ClaimRevoked), nil, attribute.String("hap.binding", d.Binding))
		w.listener.claim(ctx, ClaimInfo{Binding: d.Binding, Pool: job.pool.Name(), Runtime: job.runtime, Result: ClaimRevoked, Err: err})
		return false, err
	case b.Tenant == mark.Tenant && b.Generation == mark.Generation && b.Epoch == mark.Epoch:
		return w.counters.Confirm(ctx, job.pool.Name(), claim)
	}
	written, err := w.label(ctx, job, b, mark)
	if errors.Is(err, engine.ErrConflict) || errors.Is(err, engine.ErrUnknownResult) {
		return false, w.read(ctx, d.Binding, seen)
	}
	if errors.Is(err, engine.ErrRefused) && b.Tenant == "" && d.Origin == account.Claimed && seen.passOver(d.Binding) {
		// Nobody has been answered with it: the next one may be had.
		_, err = w.counters.Revoke(ctx, job.pool.Name(), claim)
		return false, err
	}
	if err != nil {
		return false, err
	}
	seen.put(written, true)
	w.listener.step(ctx, StepLabelled)
	return w.counters.Confirm(ctx, job.pool.Name(), claim)
}

// label writes the mark on the binding as it was seen, and tells how it went.
func (w *Worker) label(ctx context.Context, job want, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	ctx, end := w.span(ctx, "claim", attribute.String("hap.binding", seen.Name))
	defer end()
	begin := w.now()
	written, err := w.gardener.Claim(ctx, seen, mark)
	job.trail.attempt(w.now(), seen.Name, claimResult(err))
	if err != nil {
		happened(ctx, happenedClaim+string(claimResult(err)), err)
	}
	w.listener.claim(ctx, ClaimInfo{
		Binding: seen.Name, Pool: job.pool.Name(), Runtime: job.runtime,
		Result: claimResult(err), Duration: w.since(begin), Err: err,
	})
	return written, err
}

func claimResult(err error) ClaimResult {
	switch {
	case err == nil:
		return ClaimWritten
	case errors.Is(err, engine.ErrConflict):
		return ClaimConflict
	case errors.Is(err, engine.ErrUnknownResult):
		return ClaimUnknown
	default:
		return ClaimUnavailable
	}
}

// look takes the cache's view of a binding, else the source's.
func (w *Worker) look(ctx context.Context, binding string, seen *views) error {
	if b, ok := w.gardener.Cached(binding); ok {
		seen.put(b, false)
		return nil
	}
	return w.read(ctx, binding, seen)
}

// read takes the source's view of a binding. One that is gone counts as dirty:
// nobody can be given it, and a claim of it is to be revoked.
func (w *Worker) read(ctx context.Context, binding string, seen *views) error {
	b, err := w.gardener.Get(ctx, binding)
	if engine.CodeOf(err) == engine.CodeUnknownBinding {
		b, err = engine.Binding{Name: binding, Dirty: true}, nil
	}
	if err != nil {
		return err
	}
	seen.put(b, true)
	return nil
}

// marking is how an attempt to mark a binding dirty ended.
type marking int

const (
	unmarked  marking = iota // revived, gone, or its label shows another claim: nothing follows
	marked                   // it carries dirty=true now
	unclaimed                // nobody was ever answered with it: it is back in its pool
	inUse                    // a Shoot still refers to it: the sweep tries again
)

// markDirty is rule 8.
func (w *Worker) markDirty(ctx context.Context, pool, binding, tenant string, generation int64) (marking, error) {
	for {
		b, err := w.gardener.Get(ctx, binding)
		if engine.CodeOf(err) == engine.CodeUnknownBinding {
			return unmarked, nil
		}
		if err != nil {
			return unmarked, err
		}
		refers, err := w.gardener.Refers(ctx, binding)
		if err != nil {
			return unmarked, err // never "no Shoot"
		}
		if refers {
			return inUse, nil
		}
		if shown, open := leftBy(b, tenant, generation); !open {
			return shown, nil
		}
		permit, err := w.counters.BeginDirtying(ctx, pool, binding, generation)
		if err != nil || !permit.Given {
			return unmarked, err
		}
		w.listener.step(ctx, StepDirtying)
		became, err := w.leaveLabel(ctx, pool, b, engine.Mark{Tenant: tenant, Generation: generation}, permit)
		switch {
		case err == nil:
			return became, nil
		case !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrUnknownResult):
			return unmarked, err
		case ctx.Err() != nil:
			return unmarked, context.Cause(ctx)
		}
	}
}

// leaveLabel writes what a claim leaves on its label: dirty=true, or nothing where
// nobody was ever answered with it.
func (w *Worker) leaveLabel(ctx context.Context, pool string, seen engine.Binding, mark engine.Mark, permit account.Permit) (marking, error) {
	if !permit.Pristine {
		_, err := w.gardener.MarkDirty(ctx, seen, mark)
		return marked, err
	}
	if _, err := w.gardener.Unclaim(ctx, seen, mark); err != nil {
		return unmarked, err
	}
	w.listener.step(ctx, StepFreed)
	_, err := w.counters.MarkFreed(ctx, pool, seen.Name, mark.Generation)
	w.Wake()
	return unclaimed, err
}

// leftBy is what a label shows of a claim that no Shoot refers to. It is open where
// the claim is still to be marked dirty.
func leftBy(b engine.Binding, tenant string, generation int64) (shown marking, open bool) {
	switch {
	case b.Dirty && b.Tenant == tenant && b.Generation == generation:
		return marked, false
	case b.Dirty, b.Shared, b.Internal, !sameClaim(b, tenant, generation):
		return unmarked, false
	default:
		return unmarked, true
	}
}

// sameClaim reports whether a label still shows this very claim, or a claim whose
// label was never written: rule 8.
func sameClaim(b engine.Binding, tenant string, generation int64) bool {
	if b.Tenant == "" {
		return b.Generation < generation
	}
	return b.Tenant == tenant && b.Generation <= generation
}
