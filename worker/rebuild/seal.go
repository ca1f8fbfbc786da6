package rebuild

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// sealAtOnce is how many seals are under way: each waits for the answer of its publish.
const sealAtOnce = 128

// sealAlone is how many are sealed one after the other before that.
const sealAlone = 16

// seal publishes a non-final reply for every event that is still to be settled:
// a worker that decided it before the loss is refused at its publish, and starts over. It returns
// when all of them are stored.
func (r *Rebuilder) seal(ctx context.Context, info *observe.Rebuild) error {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(sealAtOnce)
	sealed := sealing{Rebuilder: r, group: group}
	err := r.Ledger.Unsettled(within, func(e events.Event, _ uint64, _ error) error {
		if subject := e.ReplySubject(r.Subjects); subject != "" {
			return sealed.begin(func() error { return sealed.untouched(within, subject, e) })
		}
		return within.Err()
	})
	if err == nil {
		// By their subjects: a request that only a newer version can read is decided by one.
		err = r.Room.Addresses(within, "", func(a events.WaitingAddress, foreign *events.Foreign) error {
			if foreign != nil {
				info.Foreign++
			}
			if a.RuntimeID != "" {
				subject, e := r.Subjects.Reply(a.RuntimeID, a.RequestID), events.Event{ID: a.RequestID, RuntimeID: a.RuntimeID}
				return sealed.begin(func() error { return sealed.one(within, subject, e) })
			}
			return within.Err()
		})
	}
	// What a seal failed with, not that the others were stopped by it.
	if failed := group.Wait(); failed != nil && ctx.Err() == nil {
		err = failed
	}
	info.Sealed += int(sealed.stored.Load())
	if err != nil {
		return fmt.Errorf("seal the events that are not settled: %w", err)
	}
	return nil
}

// sealing begins seals and counts those that are stored.
type sealing struct {
	*Rebuilder

	group  *errgroup.Group
	begun  int
	stored atomic.Int64
}

// begin begins a seal, and waits for the first ones: a few are sealed in their order.
func (s *sealing) begin(seal func() error) error {
	if s.begun++; s.begun <= sealAlone {
		return seal()
	}
	s.group.Go(seal)
	return nil
}

// untouched seals an event that has most likely no reply yet, without a look before.
func (s *sealing) untouched(ctx context.Context, subject string, e events.Event) error {
	_, err := s.Ledger.Publish(ctx, subject, mark(e), 0)
	if errors.Is(err, events.ErrWrongLastSequence) {
		return s.one(ctx, subject, e)
	}
	if err == nil {
		s.stored.Add(1)
	}
	return err
}

func mark(e events.Event) events.Reply {
	return events.Reply{RequestID: e.ID, RuntimeID: e.RuntimeID, Status: events.StatusSealed}
}

// one seals an event that may have a reply.
func (s *sealing) one(ctx context.Context, subject string, e events.Event) error {
	done, err := s.sealOne(ctx, subject, e)
	if done {
		s.stored.Add(1)
	}
	return err
}

func (r *Rebuilder) sealOne(ctx context.Context, subject string, e events.Event) (bool, error) {
	for {
		stored, found, err := r.Ledger.Last(ctx, subject)
		if errors.Is(err, events.ErrUnknownReply) {
			return false, nil // it may be a final one
		}
		if err != nil {
			return false, err
		}
		if found && stored.Reply.Final() {
			return false, nil // losing to a final is fine
		}
		seal := mark(e)
		if found && stored.Foreign == nil {
			seal = stored.Reply // it waits on, or its id is taken: the same again, under a new sequence
		}
		_, err = r.Ledger.Publish(ctx, subject, seal, stored.Sequence)
		if !errors.Is(err, events.ErrWrongLastSequence) {
			return err == nil, err
		}
	}
}
