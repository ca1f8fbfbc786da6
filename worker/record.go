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
	// mostPassed bounds the rules that a decision record lists as not chosen.
	mostPassed = 3
	// mostAttempts is the maximum number of label writes and revocations in a decision record. It has the last ones.
	mostAttempts = 8
)

// decisionTrace collects the input of the decision record while an event is handled. decided and attempt
// do nothing on a nil decisionTrace.
type decisionTrace struct {
	times    events.Times
	attempts []events.Attempt
	rules    *rule.Ruleset // nil until the rules were matched
	request  rule.Request
	made     bool             // chosen is set; its sequence may be 0
	chosen   account.Decision // the last new decision of this attempt; its repetitions have no Considered
	terms    account.Terms    // of the last search
	strategy account.Strategy
	changed  *events.Changed
}

// asks records the request that the rules are matched against.
func (t *decisionTrace) asks(rules *rule.Ruleset, r rule.Request) { t.rules, t.request = rules, r }

// searches records the terms of the search for a binding.
func (t *decisionTrace) searches(terms account.Terms) { t.terms = terms }

// decided records a decision. If it repeats a decision of this attempt, decided copies Considered from
// that one into d, since the script returns it only once.
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

// repeats reports whether d is t.chosen once more. It compares the epochs too, since a rebuild may reuse a
// sequence for another decision.
func (t *decisionTrace) repeats(d *account.Decision) bool {
	was := &t.chosen
	return t.made && d.Repeated && was.Outcome == account.Assigned && d.Outcome == account.Assigned &&
		d.Epoch == was.Epoch && d.Sequence == was.Sequence && d.Binding == was.Binding
}

// attempt records the result of one attempt to write a label, or the revocation of a claim.
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

// departed records what a deprovision changed. If the runtime was gone already and the event may have been
// handled before (again), Changed.Runtime stays empty: this event itself may have released the runtime.
func (t *decisionTrace) departed(left account.Departure, again bool, by string) {
	if t.changed != nil {
		return // a retry; the first call has recorded the change
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

// unknownRuntime is the recorded state of a runtime that was unknown.
const unknownRuntime = "none"

// unknown records the deprovision of an unknown runtime.
func (t *decisionTrace) unknown(by string) {
	t.changed = &events.Changed{Runtime: unknownRuntime, By: by}
}

// waits copies two times from the stored waiting reply: when the request was published, and when it began to
// wait. Another worker may have received the event.
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
			return // rejected before the rules were matched: there is nothing to record
		}
		r.Decision = &events.Decision{}
	}
	// Record the rules if they led to the decision (it names one), or if there is no decision. An assignment
	// without a rule comes from an earlier request, even if its sequence is 0.
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

// moments returns the times for the reply: UTC, truncated to milliseconds.
func (t *decisionTrace) moments() *events.Times {
	out := t.times
	for _, at := range []*time.Time{&out.Published, &out.Began, &out.Waiting, &out.Decided, &out.Claimed} {
		*at = at.UTC().Truncate(time.Millisecond)
	}
	return &out
}
