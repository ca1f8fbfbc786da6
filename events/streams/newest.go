package streams

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Extent says how much of a stream Newest or WalkNewest has read.
type Extent struct {
	Read int       // messages on matching subjects
	From time.Time // when the oldest of them was stored; zero for none
	// Bounded says that the limit `most` has left out messages, on any subject, that were stored at `since` or later.
	Bounded bool
	// Older says that the stream has messages, on any subject, that were stored before the time `since`.
	Older bool
}

// With returns the extent of two readings of a stream together: the sum of Read, the earlier From, and Bounded or
// Older if one of them is.
func (e Extent) With(other Extent) Extent {
	if e.From.IsZero() || !other.From.IsZero() && other.From.Before(e.From) {
		e.From = other.From
	}
	return Extent{Read: e.Read + other.Read, From: e.From, Bounded: e.Bounded || other.Bounded, Older: e.Older || other.Older}
}

// Newest is like Each, but visits only messages that were stored at since or later, and only among the last
// `most` sequences of the stream. So its cost hardly grows with the stream.
func Newest(ctx context.Context, streams Streams, stream, filter string, since time.Time, most uint64, visit func(Message) error) (Extent, error) {
	return newest(ctx, streams, stream, since, most, visit, func(begin uint64, visit func(Message) error) error {
		return Each(ctx, streams, stream, begin, filter, visit)
	})
}

// WalkNewest is Newest for all subjects, and reads with Walk instead of Each: that costs a tenth for each
// message, and needs the right to create a consumer.
func WalkNewest(ctx context.Context, streams Streams, stream string, since time.Time, most uint64, visit func(Message) error) (Extent, error) {
	return newest(ctx, streams, stream, since, most, visit, func(begin uint64, visit func(Message) error) error {
		return streams.Walk(ctx, stream, begin-1, visit)
	})
}

func newest(ctx context.Context, streams Streams, stream string, since time.Time, most uint64, visit func(Message) error, read func(begin uint64, visit func(Message) error) error) (Extent, error) {
	var extent Extent
	state, err := streams.State(ctx, stream)
	if err != nil || state.LastSeq == 0 {
		return extent, err
	}
	oldest := max(state.FirstSeq, 1)
	begin := oldest
	if state.LastSeq >= most {
		begin = max(oldest, state.LastSeq-most+1)
	}
	first, err := FirstSince(ctx, streams, stream, since, oldest, state.LastSeq)
	if err != nil {
		return extent, err
	}
	extent.Older = first > oldest
	if first < begin { // first may lie in a gap, where nothing is left out
		msg, err := streams.Message(ctx, stream, Query{Sequence: first, NextFor: ">"})
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return extent, err
		}
		extent.Bounded = err == nil && msg.Sequence < begin
	}
	err = read(max(begin, first), func(msg Message) error {
		if extent.Read++; extent.Read == 1 {
			extent.From = msg.Time
		}
		return visit(msg)
	})
	return extent, err
}

// FirstSince returns a sequence from low to high+1 that separates older messages from newer ones: of the messages
// from low to high, those below it were stored before since, those from it on were not. Its binary search reads
// about 20 of a million messages.
func FirstSince(ctx context.Context, streams Streams, stream string, since time.Time, low, high uint64) (uint64, error) {
	for low <= high {
		middle := low + (high-low)/2
		msg, err := streams.Message(ctx, stream, Query{Sequence: middle, NextFor: ">"})
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			high = middle - 1
		case err != nil:
			return 0, err
		case msg.Time.Before(since):
			low = msg.Sequence + 1
		default:
			high = middle - 1
		}
	}
	return low, nil
}
