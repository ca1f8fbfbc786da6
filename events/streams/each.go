package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

const (
	// alone is how many messages Each reads one by one before it may read in parallel: most calls find
	// only a few. Each continues in parallel while a window has at least as many messages.
	alone = 16
	// window is how many sequences Each reads in parallel, with this many readers. With published events of the
	// largest size (events.MaxMessage) a window takes 128 MiB.
	window  = 512
	readers = 32
)

// Each visits the messages on matching subjects in stream order, beginning at the sequence next. It may leave
// out messages that are stored after it has found the first. It reads each message from the leader, and
// uses no consumer. If there is no message, it costs one small read: deprovisions check whether their
// runtime waits. It returns the first error of visit.
func Each(ctx context.Context, streams Streams, stream string, next uint64, filter string, visit func(Message) error) error {
	e := each{streams: streams, stream: stream, filter: filter, visit: visit}
	end := func() {}
	defer func() { end() }()
	for found, begun := 0, uint64(0); ; {
		msg, err := e.read(ctx, next)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return nil
		case err != nil:
			return err
		}
		if e.last == 0 {
			state, err := streams.State(ctx, stream)
			if err != nil {
				return err
			}
			e.last = state.LastSeq // the highest sequence that the stream has assigned
			visit, end = watch(ctx, stream, msg.Sequence-1, e.last, visit)
			e.visit = visit
		}
		if msg.Sequence > e.last {
			return nil
		}
		if err := visit(msg); err != nil {
			return err
		}
		if found == 0 {
			begun = msg.Sequence
		}
		next = msg.Sequence + 1
		if found++; found < alone {
			continue
		}
		// Messages on other subjects may lie between: a window with few matching ones costs more than
		// to read them one by one.
		for dense := next-begun <= window; dense && next <= e.last; {
			var n int
			if next, n, err = e.together(ctx, next); err != nil {
				return err
			}
			dense = n >= alone
		}
		found = 0
	}
}

type each struct {
	streams        Streams
	stream, filter string
	visit          func(Message) error
	last           uint64 // the end of the stream, as read after the first message was found; 0 before
}

func (e *each) read(ctx context.Context, from uint64) (Message, error) {
	msg, err := e.streams.Message(ctx, e.stream, Query{Sequence: from, NextFor: e.filter})
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		err = fmt.Errorf("reading %s from sequence %d: %w", e.stream, from, err)
	}
	return msg, err
}

// together visits the messages of one window, and returns where the next window begins and how many
// messages it found. Each reader reads its part of the window message by message, since a sequence is
// known only from the message before.
func (e *each) together(ctx context.Context, from uint64) (next uint64, found int, err error) {
	const part = window / readers
	parts := make([][]Message, readers)
	group, reading := errgroup.WithContext(ctx)
	for i := range parts {
		begin := from + uint64(i*part)
		end := min(begin+part, e.last+1)
		if begin >= end {
			break
		}
		group.Go(func() error {
			for at := begin; at < end; {
				msg, err := e.read(reading, at)
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					return nil
				}
				if err != nil {
					return err
				}
				if msg.Sequence < end {
					parts[i] = append(parts[i], msg)
				}
				at = msg.Sequence + 1
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, 0, err
	}
	for _, messages := range parts {
		for _, msg := range messages {
			if err := e.visit(msg); err != nil {
				return 0, 0, err
			}
		}
		found += len(messages)
	}
	return from + window, found, nil
}
