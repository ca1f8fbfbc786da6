package worker

import (
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

const (
	// mostPassed is how many rules that lost a decision record has.
	mostPassed = 3
	// mostAttempts is how many writes of labels it has, the last ones.
	mostAttempts = 8
)

// decisionTrace has what a worker remembers of its handling of one event, so that the
// reply can say how it came about. The nil decisionTrace remembers nothing.
type decisionTrace struct {
	times    events.Times
	attempts []events.Attempt
	rules    *rule.Ruleset // once they were asked
	request  rule.Request
	made     bool             // chosen is a decision; its number may be 0
	chosen   account.Decision // the one that looked at bindings, whatever repeated it
	strategy account.Strategy
	changed  *events.Changed
}

// asks notes what the rules are matched against.
func (t *decisionTrace) asks(rules *rule.Ruleset, r rule.Request) { t.rules, t.request = rules, r }

// decided notes a decision. Where it repeats one that this worker made before, it
// gets the bindings back that were considered then: the script has forgotten them.
func (t *decisionTrace) decided(at time.Time, d *account.Decision) {
	if t == nil || d.Outcome == account.Short {
		return
	}
	t.times.Decided = at
	if t.repeats(d) {
		d.Considered = t.chosen.Considered
		return
	}
	t.made, t.chosen = true, *d
}

// repeats reports whether a decision is the one that was chosen. Numbers are those of an epoch: a
// rebuild may give one to another decision.
func (t *decisionTrace) repeats(d *account.Decision) bool {
	was := &t.chosen
	return t.made && d.Repeated && was.Outcome == account.Assigned && d.Outcome == account.Assigned &&
		d.Epoch == was.Epoch && d.Sequence == was.Sequence && d.Binding == was.Binding
}

// attempt notes what came of making sure of a label.
func (t *decisionTrace) attempt(at time.Time, binding string, result observe.ClaimResult) {
	if t == nil {
		return
	}
	text := string(result)
	if result == observe.ClaimWritten {
		t.times.Claimed, text = at, "written"
	}
	t.attempts = append(t.attempts, events.Attempt{Binding: binding, Result: text})
	if surplus := len(t.attempts) - mostAttempts; surplus > 0 {
		t.attempts = slices.Delete(t.attempts, 0, surplus)
	}
}

// departed notes what a deprovision changed. That the runtime was gone already may
// be this event's own doing, before it came again: then nothing is said of it.
func (t *decisionTrace) departed(left account.Departure, again bool, by string) {
	if t.changed != nil {
		return // a further attempt of this worker
	}
	t.changed = &events.Changed{Account: string(left.State), Superseded: left.Waited, By: by}
	switch {
	case left.Repeated && again:
	case left.Repeated:
		t.changed.Runtime = string(account.RuntimeGone)
	case left.Binding != "":
		t.changed.Runtime = string(account.RuntimeAssigned)
	case left.Waited != "":
		t.changed.Runtime = string(account.RuntimeWaiting)
	default:
		t.changed.Runtime = unknownRuntime
	}
	if left.Binding == "" {
		t.changed.Account = ""
	}
}

// unknownRuntime is the state of a runtime of which nothing was known.
const unknownRuntime = "none"

// unknown notes a deprovision of a runtime that had nothing.
func (t *decisionTrace) unknown(by string) {
	t.changed = &events.Changed{Runtime: unknownRuntime, By: by}
}

// waits takes over when a request was published and began to wait, from the reply
// that said so: the worker that serves it did not see it come.
func (t *decisionTrace) waits(stored events.Stored) {
	t.times.Waiting = stored.Time.UTC()
	if d := stored.Reply.Decision; d != nil && d.Times != nil {
		t.times.Published = d.Times.Published
		if !d.Times.Waiting.IsZero() {
			t.times.Waiting = d.Times.Waiting
		}
	}
}

// record completes the decision record of a reply.
func (h *Handler) record(a *attempt, r *events.Reply) {
	t := &a.trace
	if r.Decision == nil {
		if t.rules == nil {
			return // it did not come to the rules: the error says all there is
		}
		r.Decision = &events.Decision{}
	}
	// What is assigned without a rule has its place by an earlier request; its number may be 0.
	if t.rules != nil && (r.Decision.Rule != "" || r.Decision.Sequence == 0 && r.Status != events.StatusAssigned) {
		r.Decision.PlatformRegion, r.Decision.HyperscalerRegion = t.request.PlatformRegion, t.request.HyperscalerRegion
		for _, o := range t.rules.Passed(t.request, mostPassed) {
			r.Decision.Passed = append(r.Decision.Passed, events.Passed{Rule: o.Rule, RuleNumber: o.RuleNumber, Why: o.Why})
		}
	}
	if r.Status == events.StatusWaiting && t.times.Waiting.IsZero() {
		t.times.Waiting = h.now()
	}
	r.Decision.Origin, r.Decision.Strategy = string(t.chosen.Origin), string(t.strategy)
	r.Decision.Attempts, r.Decision.Changed = slices.Clone(t.attempts), t.changed
	for i := range r.Decision.Considered {
		c := &r.Decision.Considered[i]
		c.Own = h.owned(a.tenant(), *c, t.chosen.Origin)
	}
	r.Decision.Times = t.moments()
}

// owned reports whether a considered binding was the tenant's before the decision.
func (h *Handler) owned(tenant string, c events.Considered, origin account.Origin) bool {
	switch account.Verdict(c.Verdict) {
	case account.AtLimit, account.LessFitting:
		return true
	case account.Chosen:
		return origin == account.Own || origin == account.Revived || origin == account.Labelled
	case account.HeldByOther, account.BarredHere:
		b, known := h.gardener.Cached(c.Binding)
		return known && tenant != "" && b.Tenant == tenant && !b.Pool().Shared
	default:
		return false
	}
}

// moments are the times as a reply has them, in milliseconds.
func (t *decisionTrace) moments() *events.Times {
	out := t.times
	for _, at := range []*time.Time{&out.Published, &out.Began, &out.Waiting, &out.Decided, &out.Claimed} {
		*at = at.UTC().Truncate(time.Millisecond)
	}
	return &out
}
