package storage

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// Backlog describes the events in HAP_EVENTS, which are published and not settled.
type Backlog struct {
	// First is the sequence of the oldest unsettled event, Last+1 if there is none. Last is the highest sequence
	// that the stream has assigned.
	First, Last uint64
	Oldest      time.Time // when the event First was published; zero if there is none
}

// Backlog returns the present state of HAP_EVENTS.
func (l *Ledger) Backlog(ctx context.Context) (Backlog, error) {
	state, err := l.streams.State(ctx, l.subjects.Stream(events.StreamEvents))
	if err != nil {
		return Backlog{}, err
	}
	if state.Msgs == 0 {
		return Backlog{First: state.LastSeq + 1, Last: state.LastSeq}, nil
	}
	return Backlog{First: state.FirstSeq, Last: state.LastSeq, Oldest: state.FirstTime}, nil
}
