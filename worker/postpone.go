package worker

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// waitsUntil is the end of an event's waiting, by the clock of the stream: the deadline of its first
// waiting reply, else the publisher's deadline or the longest wait, whichever is sooner, else the
// configured time from now on.
func (h *Handler) waitsUntil(a *attempt) time.Time {
	if !a.until.IsZero() {
		return a.until
	}
	rules, now := h.rules.Get(), h.clock.Now()
	timeout, longest := rules.WaitingTimeout(), now.Add(rules.LongestWait())
	switch a.until = now.Add(timeout); {
	case timeout == 0: // reject at once, whatever the publisher would bear
	case !a.event.Provision.Deadline.IsZero():
		a.until = a.event.Provision.Deadline
	}
	if a.until.After(longest) {
		a.until = longest
	}
	return a.until
}

func (a answer) waiting(reason events.WaitingReason, until time.Time) events.Reply {
	r := a.reply(events.StatusWaiting)
	r.Waiting = &events.Waiting{Reason: reason, Position: a.decision.Position, Deadline: until.UTC()}
	return r
}

// postponed is the outcome of an event that could not be brought to an end in its
// budget. A claim that Gardener does not take frees its place for events that need
// no claim: it goes on in the waiting room.
func (h *Handler) postponed(ctx context.Context, a *attempt, err error) outcome {
	if !unavailable(err) || a.event.Provision == nil || a.pool == "" || ctx.Err() != nil {
		return notNow(ctx, err)
	}
	if !h.clock.Now().Before(h.waitsUntil(a)) {
		return notNow(ctx, err) // nothing may wait: an outage is no answer
	}
	ctx, cancel := context.WithTimeout(ctx, h.ackWait/3)
	defer cancel()
	if failed := h.giveBack(ctx, a); failed != nil {
		return notNow(ctx, err)
	}
	p := a.event.Provision
	r := events.Reply{
		RequestID: a.event.ID, RuntimeID: p.RuntimeID, Status: events.StatusWaiting,
		GlobalAccountID: p.GlobalAccountID, Plan: p.Plan, Provider: p.Provider, ShootName: p.ShootName, Cluster: p.Cluster,
		Waiting:  &events.Waiting{Reason: events.WaitingUnavailable, Deadline: a.until.UTC()},
		Decision: &events.Decision{Sequence: a.decision, Pool: a.pool},
	}
	h.record(a, &r)
	if failed := h.publish(ctx, a, r); failed != nil {
		return notNow(ctx, err) // comes again, and reads what is stored
	}
	h.observer.Step(ctx, observe.StepPublished)
	if failed := h.outlive(ctx, a); failed != nil {
		return notNow(ctx, err)
	}
	h.copy(ctx, a, r)
	o := finalOutcome(r)
	o.reason = err.Error()
	return o
}
