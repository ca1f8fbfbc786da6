package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// idle is how long Walk waits for messages of its consumer. If none has come in that time, or the consumer has no
// more, Walk asks the leader whether the stream has another one.
const idle = time.Second

// patience is how many times in a row Walk waits for the time idle without any message, although the leader has
// more, before it creates another consumer. The library alone would notice only after half a minute that a
// consumer was lost with its server.
const patience = 3

// prefetched is how many messages are requested at once: enough never to wait for the server.
const prefetched = 4000

// walker reads a stream from a sequence to its end.
type walker struct {
	server
	stream string
}

// walk visits the messages after the sequence `read`, until the stream has no more.
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

// errStalled says that a consumer delivers nothing although the stream has more messages.
var errStalled = errors.New("the consumer delivers nothing")

// readOn visits the messages after *read with a new consumer, and advances *read.
func (w walker) readOn(ctx context.Context, read *uint64, visit func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	creating, cancel := Bounded(ctx, w.js)
	defer cancel()
	consumer, err := w.js.OrderedConsumer(creating, w.stream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: *read + 1, InactiveThreshold: time.Minute,
		// By default the library resets without limit, past all our deadlines, and under one name: a
		// consumer that was placed on a server which is gone stays there until the server is back. The
		// next readOn uses another name.
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

// next visits messages until the consumer has no more, at most prefetched of them, and for at most the time idle in all.
// pending is how many messages the consumer has after the last visited one, 0 if none came.
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
