package worker

import (
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/events"
)

// waitsOn leaves a request that found nothing in the waiting room. Where its record
// in Redis is new, another worker has taken the old one back: if that was because the
// request is answered, the new one is taken back as well (rule 12).
func (h *Handler) waitsOn(ctx context.Context, a *attempt, r events.Reply) (outcome, error) {
	if r.Decision.Sequence != a.since {
		if out, done, err := h.readStored(ctx, a); done || err != nil {
			return out, err
		}
	}
	return outcome{status: r.Status}, nil
}

// readStored reads what the ledger has for the event. A final reply stands and is
// acted on; anything else returns the sequence that the next publish expects.
func (h *Handler) readStored(ctx context.Context, a *attempt) (out outcome, done bool, err error) {
	stored, found, err := h.ledger.Last(ctx, a.subject)
	if err != nil {
		return outcome{}, false, err
	}
	a.expect, a.taken = stored.Sequence, stored.Reply.For == a.event.Type && found
	if !found {
		return outcome{}, false, nil
	}
	if stored.Reply.Final() {
		out, err = h.stands(ctx, a, stored.Reply)
		return out, err == nil, err
	}
	if stored.Foreign == nil && !answers(&a.delivery, stored.Reply) {
		if stored.Reply.For != "" && a.event.Provision != nil && a.invalid == nil {
			// A deprovision has the id, which may be refused: no provision under it is answered (rule 11).
			if err := h.takeBack(ctx, a); err != nil {
				return outcome{}, false, err
			}
		}
		return h.foreign(ctx, a), true, nil // which waits under this id, and is answered here
	}
	if waiting := stored.Reply.Waiting; waiting != nil {
		a.waited, a.until = true, waiting.Deadline
		a.trace.waits(stored)
		if stored.Reply.Decision != nil {
			a.since = stored.Reply.Decision.Sequence
		}
	}
	return outcome{}, false, nil
}

// take has the ledger say that the id of a deprovision is its own, before anything has an
// effect that no answer takes back: a provision under the same id may be on its way
// (rule 11). What was stored first stands, and is acted on.
func (h *Handler) take(ctx context.Context, a *attempt) (out outcome, done bool, err error) {
	if a.event.Deprovision == nil {
		return outcome{}, false, nil
	}
	for a.invalid == nil && !a.taken {
		if out, done, err = h.takeOnce(ctx, a); done || err != nil {
			return out, done, err
		}
	}
	return outcome{}, false, nil
}

func (h *Handler) takeOnce(ctx context.Context, a *attempt) (out outcome, done bool, err error) {
	err = h.mark(ctx, a)
	if !errors.Is(err, events.ErrWrongLastSequence) {
		return outcome{}, false, err
	}
	return h.readStored(ctx, a)
}

// mark stores a mark under the event's id: an answer that was decided before cannot be stored after it.
func (h *Handler) mark(ctx context.Context, a *attempt) error {
	sealed := events.Reply{RequestID: a.event.ID, RuntimeID: a.event.RuntimeID, Status: events.StatusSealed, For: a.event.Type}
	sequence, err := h.ledger.Publish(ctx, a.subject, sealed, a.expect)
	if err != nil {
		a.again = true
		return err
	}
	a.expect, a.taken = sequence, true
	return nil
}

// leave takes the event out of the waiting room, after its final reply.
func (h *Handler) leave(ctx context.Context, a *attempt, r events.Reply) error {
	if a.event.Provision == nil || r.Decision == nil || r.Decision.Pool == "" {
		return nil // a worker that looks into the room finds the final reply
	}
	p := a.event.Provision
	return h.room.Leave(ctx, h.subjects.Waiting(r.Decision.Pool, p.GlobalAccountID, a.event.RuntimeID, a.event.ID))
}

// stands acts on a final reply that is stored already: what Redis holds against that
// answer is taken back.
func (h *Handler) stands(ctx context.Context, a *attempt, r events.Reply) (outcome, error) {
	mine := answers(&a.delivery, r)
	if mine || r.Status == events.StatusRejected {
		// Where the id was another request's that was rejected, nothing can be held under it.
		if err := h.giveUp(ctx, a, r); err != nil {
			return outcome{}, err
		}
	}
	if !mine {
		return h.foreign(ctx, a), nil
	}
	h.ranges.Stands(r)
	h.copy(ctx, a, r)
	if a.waited {
		if err := h.leave(ctx, a, r); err != nil {
			return outcome{}, err
		}
	}
	return finalOutcome(r), nil
}

// giveUp takes back what Redis holds against a stored reply. A provision whose final
// answer is not an assignment holds nothing (rule 11); one that is not valid never did.
// A runtime that was released has no network blocks (rule 7).
func (h *Handler) giveUp(ctx context.Context, a *attempt, r events.Reply) error {
	switch {
	case a.event.Deprovision != nil && r.Status == events.StatusReleased:
		freed, err := h.ranges.Release(ctx, a.event.RuntimeID)
		if freed {
			h.WakeNetwork()
		}
		return err
	case a.event.Provision != nil && a.invalid == nil && r.Final() && r.Status != events.StatusAssigned:
		return h.takeBack(ctx, a)
	default:
		return nil
	}
}

// takeBack undoes what the request holds in Redis, in whatever pool: the stored
// refusal may be older than the rules that this worker decided by.
func (h *Handler) takeBack(ctx context.Context, a *attempt) error {
	if err := h.returnRanges(ctx, a.event, a.event.ID); err != nil {
		return err
	}
	pool := a.pool
	if pool == "" {
		place, err := h.counters.Place(ctx, a.event.RuntimeID)
		if err != nil {
			return h.notBuilt(err, "")
		}
		if pool = place.Pool; pool == "" {
			return nil
		}
	}
	if err := h.counters.TakeBack(ctx, pool, a.event.RuntimeID, a.event.ID); err != nil {
		return h.notBuilt(err, pool)
	}
	h.WakeTenant(pool, a.tenant())
	return nil
}
