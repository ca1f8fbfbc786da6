package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/bulkhead"
	"github.com/hap-worker/hap-worker/worker/dirtying"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// deprovision counts a runtime down, rule 7. An account that it empties drains,
// and is marked dirty at once where no Shoot refers to it any more.
func (h *Handler) deprovision(ctx context.Context, a *attempt) (events.Reply, error) {
	e := a.event
	r := events.Reply{
		RequestID: e.ID, RuntimeID: e.RuntimeID, Status: events.StatusReleased,
		GlobalAccountID: e.Deprovision.GlobalAccountID, ShootName: e.Deprovision.ShootName,
	}
	place, err := h.counters.Depart(ctx, e.RuntimeID)
	if err != nil {
		return r, h.notBuilt(err, place.Pool)
	}
	h.observer.Step(ctx, observe.StepLocated)
	if place.Gone {
		// Unknown here: what the publisher wanted is so. The number makes the
		// ledger remember it above any provision that is still on its way.
		r.Decision = &events.Decision{Sequence: place.Sequence}
		a.trace.unknown(e.Source)
		return r, nil
	}
	left, err := h.depart(ctx, place, e)
	if err != nil {
		return r, err
	}
	if left.Moved { // a worker died between the two: rule 16
		if _, err := h.counters.MovePlace(ctx, e.RuntimeID, place, account.Place{Pool: place.Pool, Sequence: left.Sequence}); err != nil {
			return r, h.notBuilt(err, "")
		}
		return h.deprovision(ctx, a)
	}
	h.observer.Step(ctx, observe.StepDeparted)
	a.trace.departed(left, a.again, e.Source)
	r.Decision = &events.Decision{Sequence: left.Sequence, Pool: place.Pool}
	if err := h.supersede(ctx, e, place, left.Sequence); err != nil {
		return r, err
	}
	h.WakeTenant(place.Pool, left.Tenant)
	if left.Binding == "" {
		return r, nil
	}
	if r.GlobalAccountID == "" {
		r.GlobalAccountID = left.Tenant // a rebuild has to know whose account was left
	}
	pool := engine.ParsePool(place.Pool)
	b := h.binding(left.Binding, pool)
	r.Clusters = &left.Count
	r.Binding = &events.Binding{
		Name: b.Name, Namespace: b.Namespace, Kind: b.Kind, HyperscalerType: b.HyperscalerType,
		Shared: b.Shared, EUAccess: b.EUAccess, Generation: left.Generation,
	}
	if pool.Shared || b.Internal || left.Count > 0 {
		return r, nil
	}
	return h.emptied(ctx, r, place.Pool, left)
}

// depart counts the runtime of a deprovision down. Another tenant's is left as it is, and the error
// says so.
func (h *Handler) depart(ctx context.Context, place account.Place, e events.Event) (account.Departure, error) {
	left, err := h.counters.ReleaseRuntime(ctx, place, e.RuntimeID, e.Deprovision.GlobalAccountID)
	if err != nil {
		return left, h.notBuilt(err, place.Pool)
	}
	if left.Foreign {
		return left, foreignDeparture(e)
	}
	return left, nil
}

// emptied marks the account that a deprovision left empty, or says that it drains.
func (h *Handler) emptied(ctx context.Context, r events.Reply, pool string, left account.Departure) (events.Reply, error) {
	switch left.State {
	case account.Draining, account.Dirtying:
		became, err := dirtying.Unmarked, h.parts.Check(bulkhead.Part{Dependency: bulkhead.Shoots}) // else a reading for nothing
		if err == nil {
			became, err = h.MarkDirty(ctx, pool, left.Binding, left.Tenant, left.Generation)
		}
		if bulkhead.Held(err) && unavailable(err) {
			awaitTurn(ctx)
			became, err = dirtying.InUse, nil // the runtime is gone whatever Gardener does: the sweep marks the account
		}
		if err != nil {
			return r, err
		}
		r.MarkedDirty, r.Draining = became == dirtying.Marked, became == dirtying.InUse
	default:
		// Revived or freed since: nothing is to follow.
	}
	return r, nil
}

// supersede ends the waiting of a runtime that is gone: rule 7. Its requests are
// answered under the number of the departure, and leave the room.
func (h *Handler) supersede(ctx context.Context, e events.Event, place account.Place, sequence int64) error {
	return h.room.OfRuntime(ctx, e.RuntimeID, func(waiting events.WaitingRequest) error {
		a := h.begin(delivery{event: waiting.Event, subject: waiting.Event.ReplySubject(h.subjects)})
		reply := superseded(waiting.Event, place.Pool, sequence)
		for {
			stored, found, err := h.ledger.Last(ctx, a.subject)
			if errors.Is(err, events.ErrUnknownReply) {
				return nil // left to the newer version that stored it
			}
			if err != nil {
				return err
			}
			if found && stored.Reply.Final() {
				break
			}
			a.expect = stored.Sequence
			// Once more, after that was read: the departure has to be of the epoch in force (rule 15).
			if _, err := h.depart(ctx, place, e); err != nil {
				return err
			}
			err = h.publish(ctx, a, reply)
			if err == nil {
				h.copy(ctx, a, reply)
				break
			}
			if !errors.Is(err, events.ErrWrongLastSequence) {
				return err
			}
		}
		return h.room.Leave(ctx, waiting.Subject)
	})
}

// release returns a cleaned binding to its pool, rule 9.
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
	// One that is claimed again since was freed before that.
	if b.Tenant == "" && !b.Dirty {
		if _, err := h.counters.MarkFreed(ctx, from, b.Name, generation); err != nil {
			return r, h.notBuilt(err, from) // what comes again has found the binding freed, and asks Redis nothing else
		}
	}
	h.WakePool(from)
	r.Binding = &events.Binding{
		Name: b.Name, Namespace: b.Namespace, Kind: b.Kind, HyperscalerType: b.HyperscalerType,
		Shared: b.Shared, EUAccess: b.EUAccess, Generation: generation,
	}
	r.Decision = &events.Decision{Pool: b.Pool().Name()}
	return r, nil
}

// freed takes the labels off the binding, unless this release did so before, and returns
// it with the pool that it was in: its labels may have named another one since it was
// claimed. It reads again after every write that did not certainly succeed.
//
// Between reading and writing it stores a mark in the ledger (rule 11). If another attempt has stored its answer by then, the mark
// fails and nothing is written; after the mark no older answer can be stored. A later attempt finds the binding as it was
// read here, or released by this.
func (h *Handler) freed(ctx context.Context, a *attempt) (b engine.Binding, from string, err error) {
	e := a.event
	for {
		b, err = h.gardener.Get(ctx, e.Release.Binding)
		from = b.Pool().Name()
		if err != nil || b.ReleasedBy == e.ID {
			return b, from, err
		}
		if err = h.releasable(ctx, e, b, from); err != nil {
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

// releasable returns the error that a release is to be refused with, nil for none.
func (h *Handler) releasable(ctx context.Context, e events.Event, b engine.Binding, pool string) error {
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

// unnumbered returns the error that a release is to be refused with because it does not say which claim
// of the binding it is for, nil for none: it may come again after a later tenant's claim. A binding that
// was claimed once has one claim alone.
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
