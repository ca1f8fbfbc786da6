package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/streams"

	"github.com/hap-worker/hap-worker/events"
)

// OfRequest visits the replies to the requests with an id, for all runtimes and bindings, in the same
// way as Under.
func (l *Ledger) OfRequest(ctx context.Context, requestID string, visit func(events.Stored) error) error {
	for _, filter := range l.subjects.RequestReplies(requestID) {
		if err := l.Under(ctx, filter, visit); err != nil {
			return err
		}
	}
	return nil
}

// Under visits the replies on matching subjects, sorted by subject. It asks the server for the subjects, which are
// in memory there. For OfRuntime, in contrast, the server searches blocks of a large ledger. Sealed replies are
// included; an unreadable message comes as Stored.Foreign. Under returns the first error of visit.
func (l *Ledger) Under(ctx context.Context, filter string, visit func(events.Stored) error) error {
	subjects, err := l.streams.Subjects(ctx, l.stream(), filter)
	if err != nil {
		return err
	}
	for _, subject := range slices.Sorted(maps.Keys(subjects)) {
		msg, err := l.streams.Message(ctx, l.stream(), streams.Query{LastFor: subject})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // forgotten meanwhile
		}
		if err != nil {
			return fmt.Errorf("reading the reply on %s: %w", subject, err)
		}
		if err := visit(l.whatever(msg)); err != nil {
			return err
		}
	}
	return nil
}

// OfTenant visits the replies that name a global account and were stored at since or later, in stream
// order, but only among the last `most` sequences of the ledger. The subject of a reply does not name the
// tenant, so OfTenant reads every reply within these bounds; Extent says how many.
func (l *Ledger) OfTenant(ctx context.Context, globalAccountID string, since time.Time, most uint64, visit func(events.Stored) error) (streams.Extent, error) {
	return l.newest(ctx, `"`+globalAccountID+`"`, since, most, func(stored events.Stored) error {
		if stored.Reply.GlobalAccountID == globalAccountID {
			return visit(stored)
		}
		return nil
	})
}

// Claims visits the replies whose requests claimed an account, within the same bounds as OfTenant.
func (l *Ledger) Claims(ctx context.Context, since time.Time, most uint64, visit func(events.Stored) error) (streams.Extent, error) {
	return l.newest(ctx, `"claimed":true`, since, most, func(stored events.Stored) error {
		if r := stored.Reply; r.Status == events.StatusAssigned && r.Binding != nil && r.Binding.Claimed {
			return visit(stored)
		}
		return nil
	})
}

// newest visits the replies whose JSON contains a text, within the same bounds as OfTenant. It decodes only
// these, and therefore costs less than FactsAfter. An unreadable message that contains the text comes as
// Stored.Foreign.
func (l *Ledger) newest(ctx context.Context, text string, since time.Time, most uint64, visit func(events.Stored) error) (streams.Extent, error) {
	with := []byte(text)
	return streams.WalkNewest(ctx, l.streams, l.stream(), since, most, func(msg streams.Message) error {
		if !bytes.Contains(msg.Data, with) {
			return nil
		}
		return visit(l.whatever(msg))
	})
}

// Queued visits the unsettled events on matching subjects that were published at since or later, oldest
// first, but only among the last `most` sequences of the stream. For an event that does not decode, fault
// says why, and e has the fields that could be read.
func (l *Ledger) Queued(ctx context.Context, filter string, since time.Time, most uint64, visit func(e events.Event, sequence uint64, published time.Time, fault error) error) (streams.Extent, error) {
	return streams.Newest(ctx, l.streams, l.subjects.Stream(events.StreamEvents), filter, since, most, func(msg streams.Message) error {
		event, fault := events.Decode(msg.Subject, msg.Header, msg.Data)
		return visit(event, msg.Sequence, msg.Time, fault)
	})
}

// whatever returns the reply in a message. If the message cannot be read, it returns a Stored with Foreign
// set, and reports the message to the function of OnForeign.
func (l *Ledger) whatever(msg streams.Message) events.Stored {
	stored, err := l.storedReply(msg)
	if found, ok := events.ForeignOf(err); ok {
		_ = l.pass(err)
		return events.Stored{Foreign: found, Subject: msg.Subject, Sequence: msg.Sequence, Time: msg.Time}
	}
	return stored
}
