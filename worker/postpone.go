package worker

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

func (a answer) waiting(reason events.WaitingReason, until time.Time) events.Reply {
	r := a.reply(events.StatusWaiting)
	r.Waiting = &events.Waiting{Reason: reason, Position: a.decision.Position, Deadline: until.UTC()}
	return r
}

// postponed returns the outcome of an event that could not be answered: its budget is spent, or the error is futile.
// If Gardener is unavailable or refuses the label, a provision continues in the waiting room, so that it keeps no
// handler busy, unless its deadline has passed, its pool is unknown, or that fails. Any other event is redelivered.
func (h *Handler) postponed(ctx context.Context, a *attempt, err error) outcome {
	if !unavailable(err) || a.event.Provision == nil || a.pool == "" || ctx.Err() != nil {
		return notNow(ctx, err)
	}
	if !h.clock.Now().Before(h.waitsUntil(a)) {
		return notNow(ctx, err) // it may not wait, and an outage must not reject it
	}
	ctx, cancel := context.WithTimeout(ctx, h.ackWait/3)
	defer cancel()
	if failed := h.giveBack(ctx, a); failed != nil {
		return notNow(ctx, err)
	}
	r := replyFor(a.event, events.StatusWaiting)
	r.Waiting = &events.Waiting{Reason: events.WaitingUnavailable, Deadline: a.waits.until.UTC()}
	r.Decision = &events.Decision{Sequence: a.decision, Pool: a.pool}
	h.record(a, &r)
	if failed := h.publish(ctx, a, r); failed != nil {
		return notNow(ctx, err) // the redelivery reads whether the reply was stored
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
