package events

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// OfRuntime visits the replies of one runtime that were there when it began, in the
// order of the stream, sealed ones included, each read from the leader. It ends with
// the first error of visit.
func (l *Ledger) OfRuntime(ctx context.Context, runtimeID string, visit func(Stored) error) error {
	last, err := lastSequence(ctx, l.js, l.stream())
	if err != nil {
		return err
	}
	for next := uint64(1); next <= last; {
		msg, err := getMessage(ctx, l.js, l.stream(), messageRequest{Sequence: next, NextFor: l.subjects.RuntimeReplies(runtimeID)})
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && msg.Sequence > last:
			return nil
		case err != nil:
			return fmt.Errorf("reading the replies of runtime %s from sequence %d: %w", runtimeID, next, err)
		}
		stored, err := storedReply(msg.Subject, msg.Sequence, msg.Time, msg.Data)
		if err != nil {
			return err
		}
		if err := visit(stored); err != nil {
			return err
		}
		next = msg.Sequence + 1
	}
	return nil
}
