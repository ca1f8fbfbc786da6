package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// idle is how long Walk waits for a next message before it asks the leader
// whether there is one.
const idle = time.Second

// patience is how many idle times Walk bears, while the leader has more, before it
// takes another consumer: one that a server took with it, which had just stopped,
// is given up by the library only after half a minute.
const patience = 3

// prefetched is how many messages are asked for at once: enough that
// the server is never waited for.
const prefetched = 4000

// walker reads a stream from a sequence to its end.
type walker struct {
	server
	stream string
}

// walk visits what comes after read, the sequence up to which everything was visited.
func (w walker) walk(ctx context.Context, read uint64, visit func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	for {
		if some, err := more(ctx, w.server, w.stream, read); err != nil || !some {
			return w.wrap(err)
		}
		if err := w.readOn(ctx, &read, visit); !errors.Is(err, errStalled) {
			return err
		}
	}
}

// errStalled says that a consumer delivers nothing although there is something.
var errStalled = errors.New("the consumer delivers nothing")

// readOn reads from after read, with a separate consumer.
func (w walker) readOn(ctx context.Context, read *uint64, visit func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	creating, cancel := Bounded(ctx, w.js)
	defer cancel()
	consumer, err := w.js.OrderedConsumer(creating, w.stream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: *read + 1, InactiveThreshold: time.Minute,
		// Unlimited by default, past every deadline of ours, and under one name: one that a server
		// was given which is gone stays there until it is back. Who reads again has another name.
		MaxResetAttempts: 1,
	})
	if err != nil {
		return w.wrap(err)
	}
	replies, err := consumer.Messages(jetstream.PullMaxMessages(prefetched))
	if err != nil {
		return w.wrap(err)
	}
	defer replies.Stop()
	return w.drain(ctx, replies, read, visit)
}

func (w walker) drain(ctx context.Context, replies jetstream.MessagesContext, read *uint64, visit func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	for silent := 0; ; {
		before := *read
		pending, err := w.next(ctx, replies, read, visit)
		if err != nil {
			return err
		}
		if *read > before {
			silent = 0
		}
		if pending > 0 {
			continue
		}
		if some, err := more(ctx, w.server, w.stream, *read); err != nil || !some {
			return w.wrap(err)
		}
		if silent++; silent >= patience {
			return errStalled
		}
	}
}

// next visits messages while they come and reports how many the consumer has after
// the last one; 0 also when none came for a while.
func (w walker) next(ctx context.Context, replies jetstream.MessagesContext, read *uint64, visit func(jetstream.Msg, *jetstream.MsgMetadata) error) (pending uint64, err error) {
	wait, cancel := context.WithTimeout(ctx, idle)
	defer cancel()
	for range prefetched {
		msg, err := replies.Next(jetstream.NextContext(wait))
		switch {
		case ctx.Err() != nil:
			return 0, w.wrap(context.Cause(ctx))
		case errors.Is(err, context.DeadlineExceeded):
			return pending, nil
		case err != nil:
			return 0, w.wrap(err)
		}
		facts, err := msg.Metadata()
		if err != nil {
			return 0, w.wrap(err)
		}
		*read, pending = facts.Sequence.Stream, facts.NumPending
		if err := visit(msg, facts); err != nil || pending == 0 {
			return pending, err
		}
	}
	return pending, nil
}

func (w walker) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reading the stream %s: %w", w.stream, err)
}
