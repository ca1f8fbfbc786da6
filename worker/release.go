package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/bulkhead"
	"github.com/hap-worker/hap-worker/worker/dirtying"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// deprovision releases a runtime (rule 7) and returns the reply. If its account has no runtimes left, the account
// drains, and is marked dirty at once if no Shoot refers to it any more (emptied). A shared account does not drain,
// and an internal one is not marked.
func (h *Handler) deprovision(ctx context.Context, a *attempt) (events.Reply, error) {
	e := a.event
	r := replyFor(e, events.StatusReleased)
	r.ShootName = e.Deprovision.ShootName
	place, err := h.counters.Depart(ctx, e.RuntimeID)
	if err != nil {
		return r, h.notBuilt(err, place.Pool)
	}
	h.observer.Step(ctx, observe.StepLocated)
	if place.Gone {
		// The runtime never had a place, or is about to be forgotten: nothing is left to release. The sequence
		// lets a rebuild rank this reply above a provision that is still in flight.
		r.Decision = &events.Decision{Sequence: place.Sequence}
		a.trace.unknown(e.Source)
		return r, nil
	}
	left, err := h.depart(ctx, place, e)
	if err != nil {
		return r, err
	}
	if left.Moved {
		if err := h.endMove(ctx, e.RuntimeID, place, left.Sequence); err != nil {
			return r, err
		}
		return h.deprovision(ctx, a)
	}
	h.observer.Step(ctx, observe.StepDeparted)
	a.trace.departed(left, a.stored.possible, e.Source)
	r.Decision = &events.Decision{Sequence: left.Sequence, Pool: place.Pool}
	if err := h.supersede(ctx, e, place, left.Sequence); err != nil {
		return r, err
	}
	h.WakeTenant(place.Pool, left.Tenant)
	if left.Binding == "" {
		return r, nil
	}
	if r.GlobalAccountID == "" {
		r.GlobalAccountID = left.Tenant // a rebuild needs the tenant of the account
	}
	pool := engine.ParsePool(place.Pool)
	b := h.binding(left.Binding, pool)
	r.Clusters = &left.Count
	r.Binding = bindingFor(b, left.Generation)
	if pool.Shared || b.Internal || left.Count > 0 {
		return r, nil
	}
	return h.emptied(ctx, r, place.Pool, left)
}

// depart releases the runtime of a deprovision in Redis. It changes nothing if the runtime is another tenant's,
// which is an InvalidEvent error, or has left the pool since its place was read, which is no error
// (Departure.Moved).
func (h *Handler) depart(ctx context.Context, place account.Place, e events.Event) (account.Departure, error) {
	tenant := e.Deprovision.GlobalAccountID
	left, err := h.counters.ReleaseRuntime(ctx, place, e.RuntimeID, tenant)
	if err == nil && left.Unknown {
		if left.Foreign, err = h.waitsForAnother(ctx, e.RuntimeID, tenant); err == nil && !left.Foreign {
			left, err = h.counters.ReleaseUnknown(ctx, place, e.RuntimeID, tenant)
		}
	}
	if err == nil && left.Foreign {
		err = foreignDeparture(e)
	}
	return left, h.notBuilt(err, place.Pool)
}

// waitsForAnother reports whether another tenant's request of the runtime waits, and none of this tenant. A request that
// waits for network blocks has no record in Redis, nor has one after a loss, until it is tried again.
func (h *Handler) waitsForAnother(ctx context.Context, runtime, tenant string) (bool, error) {
	other, mine := false, false
	err := h.room.OfRuntime(ctx, runtime, func(waiting storage.WaitingRequest) error {
		if waiting.Event.Provision.GlobalAccountID == tenant {
			mine = true
		} else {
			other = true
		}
		return nil
	})
	return other && !mine, err
}

// emptied marks an account without runtimes dirty, or frees it if no request was answered with its claim. It
// returns r with MarkedDirty or, if the account is left to the sweep, with Draining: that the runtime is gone does not
// depend on the mark. It asks Gardener only until half of the budget is spent. If the account was freed or needs no
// mark, for example because it has runtimes again, r has neither.
func (h *Handler) emptied(ctx context.Context, r events.Reply, pool string, left account.Departure) (events.Reply, error) {
	if left.State != account.Draining && left.State != account.Dirtying {
		return r, nil // revived or freed meanwhile: nothing to mark
	}
	end, _ := ctx.Deadline() // of the budget
	within, cancel := context.WithDeadlineCause(ctx, end.Add(-h.budget/2), engine.ErrUnavailable)
	defer cancel()
	became, err := dirtying.Unmarked, h.parts.Check(bulkhead.Part{Dependency: bulkhead.Shoots}) // while the circuit is open, MarkDirty would fail too, after a read
	if err == nil {
		became, err = h.MarkDirty(within, pool, left.Binding, left.Tenant, left.Generation)
	}
	if unavailable(err) && (bulkhead.Held(err) || within.Err() != nil) {
		awaitTurn(ctx, h.budget)
		became, err = dirtying.InUse, nil
	}
	if errors.Is(err, engine.ErrRefused) {
		became, err = dirtying.InUse, nil
	}
	if err != nil {
		return r, err
	}
	r.MarkedDirty, r.Draining = became == dirtying.Marked, became == dirtying.InUse
	return r, nil
}

// supersede answers the waiting requests of a runtime that is gone with Superseded, under the sequence of
// its departure, and removes them from the waiting room (rule 7).
func (h *Handler) supersede(ctx context.Context, e events.Event, place account.Place, sequence int64) error {
	return h.room.OfRuntime(ctx, e.RuntimeID, func(waiting storage.WaitingRequest) error {
		a := h.begin(delivery{event: waiting.Event, subject: waiting.Event.ReplySubject(h.subjects)})
		reply := superseded(waiting.Event, place.Pool, sequence)
		for {
			stored, found, err := h.ledger.Last(ctx, a.subject)
			if errors.Is(err, events.ErrUnknownReply) {
				return nil // the newer version that stored the reply removes the request
			}
			if err != nil {
				return err
			}
			if found && stored.Reply.Final() {
				break
			}
			a.markStored(stored, found)
			// Depart once more after the read of the ledger: the epoch has to be in force then (rule 15).
			if _, err := h.depart(ctx, place, e); err != nil {
				return err
			}
			err = h.publish(ctx, a, reply)
			if err == nil {
				h.copy(ctx, a, reply)
				break
			}
			if !errors.Is(err, storage.ErrWrongLastSequence) {
				return err
			}
		}
		return h.room.Leave(ctx, waiting.Subject)
	})
}

// release returns a cleaned binding to its pool (rule 9).
func (h *Handler) release(ctx context.Context, a *attempt) (events.Reply, error) {
	e := a.event
	r := events.Reply{RequestID: e.ID, Status: events.StatusReturned}
	b, from, err := h.freed(ctx, a)
	if err != nil {
		return r, err
	}
	generation := b.Generation
	if e.Release.Generation != nil {
		generation = *e.Release.Generation
	}
	// If the binding is claimed again already, its record was freed before.
	if b.Tenant == "" && !b.Dirty {
		if _, err := h.counters.MarkFreed(ctx, from, b.Name, generation); err != nil {
			return r, h.notBuilt(err, from) // the only call that finds a lost pool when a release is repeated
		}
	}
	h.WakePool(from)
	r.Binding = bindingFor(b, generation)
	r.Decision = &events.Decision{Pool: b.Pool().Name()}
	return r, nil
}

// freed removes the labels of the binding, unless this release has done so before. It returns the binding,
// and its pool as it was read: until the labels are removed, that is the pool of the claim, which may differ
// from the pool that the labels name. After a conflict or an unknown result it reads the binding again.
//
// Between read and write it stores a mark in the ledger (rule 11). If another attempt has stored an answer,
// the mark fails and the labels stay. After the mark, no answer that was decided earlier can be stored. A
// later attempt finds the binding as it was read here, or released by this request (Binding.ReleasedBy).
func (h *Handler) freed(ctx context.Context, a *attempt) (b engine.Binding, from string, err error) {
	e := a.event
	for {
		b, err = h.gardener.Get(ctx, e.Release.Binding)
		from = b.Pool().Name()
		if err != nil || b.ReleasedBy == e.ID {
			return b, from, err
		}
		if err = h.releasable(ctx, e, b, from); err != nil {
			if again, failed := h.countedLater(ctx, b, err); failed != nil {
				return b, from, failed
			} else if again {
				continue
			}
			return b, from, err
		}
		if err = h.mark(ctx, a); err != nil {
			return b, from, err
		}
		b, err = h.gardener.Free(ctx, b, e.ID)
		switch {
		case err == nil:
			h.observer.Step(ctx, observe.StepFreed)
			return b, from, nil
		case !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrUnknownResult):
			return b, from, err
		case ctx.Err() != nil:
			return b, from, context.Cause(ctx)
		}
	}
}

// countedLater reports whether the runtimes that keep the binding from being released may be those of a later claim: the
// binding has changed since it was read, perhaps because the write of an earlier attempt of this release took effect.
func (h *Handler) countedLater(ctx context.Context, read engine.Binding, refusal error) (bool, error) {
	if engine.CodeOf(refusal) != engine.CodeBindingInUse {
		return false, nil
	}
	now, err := h.gardener.Get(ctx, read.Name)
	return now.ResourceVersion != read.ResourceVersion, err
}

// releasable returns nil if the binding may be released, otherwise the error of the rejection or of Redis.
func (h *Handler) releasable(ctx context.Context, e events.Event, b engine.Binding, pool string) error {
	if uid := e.Release.UID; uid != "" && uid != b.UID {
		return &engine.Error{
			Code: engine.CodeStaleRelease,
			Err:  fmt.Errorf("binding %s has uid %s, the release is for %s", b.Name, b.UID, uid),
			Hint: "the binding was deleted and created again since: clean its account once it is dirty",
		}
	}
	if g := e.Release.Generation; g != nil && *g != b.Generation {
		return &engine.Error{
			Code: engine.CodeStaleRelease,
			Err:  fmt.Errorf("binding %s is at generation %d, the release is for %d", b.Name, b.Generation, *g),
			Hint: "the account was claimed again since: clean it again once it is dirty",
		}
	}
	if !b.Dirty {
		return &engine.Error{
			Code: engine.CodeNotDirty,
			Err:  fmt.Errorf("binding %s is not marked dirty", b.Name),
			Hint: "only an account that its last cluster has left is released",
		}
	}
	count, err := h.counters.InUse(ctx, pool, b.Name)
	if err != nil {
		return h.notBuilt(err, pool)
	}
	if count > 0 {
		return &engine.Error{
			Code: engine.CodeBindingInUse,
			Err:  fmt.Errorf("binding %s still has %d clusters", b.Name, count),
			Hint: "deprovision them first; hapctl runtimes lists them",
		}
	}
	return unnumbered(e, b)
}

// unnumbered returns a StaleRelease error if the release names no generation and the binding had more than
// one claim. Such a release, published again, could free the claim of a later tenant.
func unnumbered(e events.Event, b engine.Binding) error {
	if e.Release.Generation != nil || b.Generation <= 1 {
		return nil
	}
	return &engine.Error{
		Code: engine.CodeStaleRelease,
		Err:  fmt.Errorf("binding %s is at generation %d, and the release does not say of which claim the account was cleaned", b.Name, b.Generation),
		Hint: fmt.Sprintf("make sure that it was cleaned since this claim, then publish the release with generation %d, or run 'hapctl release --binding %s --generation %d'",
			b.Generation, b.Name, b.Generation),
	}
}
