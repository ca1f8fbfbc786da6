package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

const (
	// alone is how many messages Each reads one by one, before it reads many at once: it is
	// mostly asked for a few.
	alone = 16
	// window is how many sequences are read at once, by so many readers. With messages of the
	// largest size that is 128 MB.
	window  = 512
	readers = 32
)

// Each visits the messages on the subjects of filter in the order of the stream,
// from the sequence next up to its end when the first was found, each read from the
// leader. It needs no consumer, and one small read where there is nothing: every
// deprovision looks whether its runtime waits. It ends with the first error of visit.
func Each(ctx context.Context, streams Streams, stream string, next uint64, filter string, visit func(Message) error) error {
	e := each{streams: streams, stream: stream, filter: filter, visit: visit}
	end := func() {}
	defer func() { end() }()
	for found := 0; ; {
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
			e.last = state.LastSeq // the highest sequence that the stream ever gave
			visit, end = watch(ctx, stream, msg.Sequence-1, e.last, visit)
			e.visit = visit
		}
		if msg.Sequence > e.last {
			return nil
		}
		if err := visit(msg); err != nil {
			return err
		}
		next = msg.Sequence + 1
		if found++; found < alone || next > e.last {
			continue
		}
		if next, err = e.together(ctx, next); err != nil {
			return err
		}
	}
}

type each struct {
	streams        Streams
	stream, filter string
	visit          func(Message) error
	last           uint64 // the end of the stream when the first was found
}

func (e *each) read(ctx context.Context, from uint64) (Message, error) {
	msg, err := e.streams.Message(ctx, e.stream, Query{Sequence: from, NextFor: e.filter})
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		err = fmt.Errorf("reading %s from sequence %d: %w", e.stream, from, err)
	}
	return msg, err
}

// together visits the messages of one window, and returns where the next one begins. Each
// reader has a part of the window and goes through it alone, since the sequence of a
// message is known only from the one before.
func (e *each) together(ctx context.Context, from uint64) (next uint64, err error) {
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
		return 0, err
	}
	for _, messages := range parts {
		for _, msg := range messages {
			if err := e.visit(msg); err != nil {
				return 0, err
			}
		}
	}
	return from + window, nil
}
