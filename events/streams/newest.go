package streams

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Extent says how much of a stream Newest has read.
type Extent struct {
	Read int       // messages on matching subjects
	From time.Time // when the oldest of them was stored; zero for none
	// Bounded says that the limit of sequences left out messages that are not before since.
	Bounded bool
}

// Newest visits the messages on matching subjects that were stored since a time, within the last
// `most` sequences of the stream, so its cost does not grow with the stream. Otherwise it is like
// Each.
func Newest(ctx context.Context, streams Streams, stream, filter string, since time.Time, most uint64, visit func(Message) error) (Extent, error) {
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
	extent.Bounded = first < begin
	err = Each(ctx, streams, stream, max(begin, first), filter, func(msg Message) error {
		if extent.Read++; extent.Read == 1 {
			extent.From = msg.Time
		}
		return visit(msg)
	})
	return extent, err
}

// FirstSince returns the lowest sequence from low to high whose message is not before since, high+1 if
// there is none. Its binary search reads about 20 of a million messages.
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
