package worker

import (
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// waitsOn leaves a request without an account in the waiting room. If the sequence of its record in Redis is not that
// of the stored waiting reply, another worker may have answered the request and taken the old record back. So waitsOn
// then reads the ledger. If the request is answered, the new record is taken back too (rule 12).
func (h *Handler) waitsOn(ctx context.Context, a *attempt, r events.Reply) (outcome, error) {
	if r.Decision.Sequence != a.waits.decision {
		if out, err := h.readStored(ctx, a); out.ended() || err != nil {
			return out, err
		}
	}
	return finalOutcome(r), nil
}

// readStored reads the event's last stored reply, and the sequence for the next publish. If a final reply
// stands, it acts on that reply and returns the outcome. If the id belongs to another event, it returns the
// outcome of foreign. Otherwise it returns the zero outcome: the event has to be decided.
func (h *Handler) readStored(ctx context.Context, a *attempt) (outcome, error) {
	stored, found, err := h.ledger.Last(ctx, a.subject)
	if err != nil {
		return outcome{}, err
	}
	a.markStored(stored, found)
	if !found {
		return outcome{}, nil
	}
	if stored.Reply.Final() {
		return h.stands(ctx, a, stored.Reply)
	}
	if stored.Foreign == nil && !answers(&a.delivery, stored.Reply) {
		return h.yield(ctx, a, stored.Reply)
	}
	if stored.Reply.Waiting != nil {
		a.markWaiting(stored)
	}
	return outcome{}, nil
}

// take reserves the id of a valid deprovision in the ledger before the deprovision has an effect that cannot be
// undone: a provision with the same id may be in flight (rule 11). For any other event, or if the id is reserved
// already, it does nothing. If readStored ends the event, for example because a final reply is stored already,
// take returns that outcome.
func (h *Handler) take(ctx context.Context, a *attempt) (out outcome, err error) {
	for a.event.Deprovision != nil && a.invalid == nil && !a.stored.taken && !out.ended() && err == nil {
		if err = h.mark(ctx, a); errors.Is(err, storage.ErrWrongLastSequence) {
			out, err = h.readStored(ctx, a)
		}
	}
	return out, err
}

// mark stores a sealed reply under the event's id. The reply names the event's type and tenant. After it, no answer
// that was decided earlier can be stored.
func (h *Handler) mark(ctx context.Context, a *attempt) error {
	sealed := events.Reply{RequestID: a.event.ID, RuntimeID: a.event.RuntimeID, GlobalAccountID: a.tenant(), Status: events.StatusSealed, For: a.event.Type}
	sequence, err := h.ledger.Publish(ctx, a.subject, sealed, a.stored.expect)
	if err != nil {
		a.markUnsure()
		return err
	}
	a.markTaken(sequence)
	return nil
}

// leave removes the request from the waiting room after its final reply is stored, for every pool that it
// waits for: the rules may have moved it from pool to pool. A request that is answered in the pool for which
// it is served stays: answerWaiting removes it.
func (h *Handler) leave(ctx context.Context, a *attempt) error {
	p := a.event.Provision
	if p == nil || a.served && a.pool == a.waits.room {
		return nil
	}
	return h.room.OfRuntime(ctx, a.event.RuntimeID, func(r storage.WaitingRequest) error {
		if r.Event.ID != a.event.ID || r.Event.Provision.GlobalAccountID != p.GlobalAccountID {
			return nil
		}
		return h.room.Leave(ctx, r.Subject)
	})
}

// stands does what has to follow a final reply that is stored already, in the same way as published: the
// worker that stored it may have stopped before that. If the reply is another event's, it calls yield.
func (h *Handler) stands(ctx context.Context, a *attempt, r events.Reply) (outcome, error) {
	if !answers(&a.delivery, r) {
		return h.yield(ctx, a, r)
	}
	if err := h.giveUp(ctx, a, r); err != nil {
		return outcome{}, err
	}
	if err := h.leaveIfEntered(ctx, a); err != nil {
		return outcome{}, err
	}
	h.ranges.Stands(r)
	h.copy(ctx, a, r)
	return finalOutcome(r), nil
}

// yield ends an event whose id is that of another event, which has the stored reply r. A provision takes back what it
// holds: it may have been decided before this reply was read, and is never answered (rule 11). What the other event
// holds stays. yield returns the outcome of foreign.
func (h *Handler) yield(ctx context.Context, a *attempt, r events.Reply) (outcome, error) {
	if a.event.Provision != nil && a.invalid == nil {
		if err := h.withdraw(ctx, a, r); err != nil {
			return outcome{}, err
		}
		if err := h.leaveIfEntered(ctx, a); err != nil {
			return outcome{}, err
		}
	}
	return h.foreign(ctx, a), nil
}

// withdraw takes back the assignment and the network blocks of a provision that yields to the event of reply r. If that
// is a provision which waits or is assigned, it has blocks under the same id: only those of this attempt are returned.
func (h *Handler) withdraw(ctx context.Context, a *attempt, r events.Reply) error {
	if r.For != "" || r.Status == events.StatusRejected {
		return h.takeBack(ctx, a)
	}
	a.markSent(false) // what was published after an earlier reply cannot be stored any more
	if err := h.giveBack(ctx, a); err != nil {
		return err
	}
	return h.unassign(ctx, a)
}

// leaveIfEntered calls leave if this delivery or an earlier one may have put the request into the waiting room.
func (h *Handler) leaveIfEntered(ctx context.Context, a *attempt) error {
	if !a.waits.possible && a.number <= 1 {
		return nil
	}
	return h.leave(ctx, a)
}

// giveUp makes Redis agree with a stored reply. It takes back the assignment and the network blocks of a
// provision whose final reply is no assignment (rule 11), and frees the blocks of a released runtime (rule 7).
// Otherwise it does nothing: an invalid provision never had an assignment or blocks.
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

// takeBack undoes the assignment and the network blocks of the request.
func (h *Handler) takeBack(ctx context.Context, a *attempt) error {
	if err := h.returnRanges(ctx, a.event, a.event.ID); err != nil {
		return err
	}
	return h.unassign(ctx, a)
}

// unassign undoes the assignment of the request in Redis. It looks the pool up if this attempt has none: the
// assignment may come from an attempt by other rules.
func (h *Handler) unassign(ctx context.Context, a *attempt) error {
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
	if err := h.counters.TakeBack(ctx, pool, a.event.RuntimeID, a.event.ID, a.tenant()); err != nil {
		return h.notBuilt(err, pool)
	}
	h.WakeTenant(pool, a.tenant())
	return nil
}
