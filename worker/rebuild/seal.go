package rebuild

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// sealAtOnce is the maximum number of concurrent seals.
const sealAtOnce = 128

// sealAlone is how many events are sealed one after another, before seals run concurrently.
const sealAlone = 16

// seal stores one more reply for each event that is not settled and for each waiting request: a sealed reply,
// or again the waiting or sealed reply that is stored. It leaves out events whose reply subject is unknown,
// or whose stored reply is final or a newer version's. A worker that decided a sealed event before the loss
// then fails to publish its answer, and starts over. seal returns when all these replies are stored, or after
// the first error.
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
		// Take the id from the subject: a worker of a newer version may be deciding a request that
		// this version cannot read.
		err = r.Waiting(within, "", func(a events.WaitingAddress, foreign *events.Foreign) error {
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
	// Return the error of the seal, and not the cancellation that it caused.
	if failed := group.Wait(); failed != nil && ctx.Err() == nil {
		err = failed
	}
	info.Sealed += int(sealed.stored.Load())
	if err != nil {
		return fmt.Errorf("seal the events that are not settled and the waiting requests: %w", err)
	}
	return nil
}

// sealing starts seals and counts the stored ones.
type sealing struct {
	*Rebuilder

	group  *errgroup.Group
	begun  int
	stored atomic.Int64
}

// begin runs the first sealAlone seals itself, and starts the others in the group.
func (s *sealing) begin(seal func() error) error {
	if s.begun++; s.begun <= sealAlone {
		return seal()
	}
	s.group.Go(seal)
	return nil
}

// untouched seals an event that probably has no reply yet: it publishes without reading the subject first.
func (s *sealing) untouched(ctx context.Context, subject string, e events.Event) error {
	_, err := s.Ledger.Publish(ctx, subject, mark(e), 0)
	if errors.Is(err, storage.ErrWrongLastSequence) {
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
			return false, nil // it may be final, which must not be replaced
		}
		if err != nil {
			return false, err
		}
		if found && stored.Reply.Final() {
			return false, nil // a final reply needs no seal
		}
		seal := mark(e)
		if found && stored.Foreign == nil {
			seal = stored.Reply // keep a waiting or sealed reply: only its sequence has to change
		}
		_, err = r.Ledger.Publish(ctx, subject, seal, stored.Sequence)
		if !errors.Is(err, storage.ErrWrongLastSequence) {
			return err == nil, err
		}
	}
}
