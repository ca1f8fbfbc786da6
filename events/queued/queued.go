// Package queued finds events that are not settled, and says how far the workers are with each.
package queued

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
)

// Event is an event that is not settled.
type Event struct {
	events.Event // as far as it can be read

	Published time.Time
	// TakenUp says whether a worker has taken it up; nil if the consumer's state is unknown.
	TakenUp *bool
	// Before is the number of earlier events that no worker has taken up either.
	Before uint64
}

// State describes the progress of the event.
func (e *Event) State() string {
	switch {
	case e.TakenUp == nil:
		return "no worker has finished it"
	case *e.TakenUp:
		return "in work, a worker has taken it up and not finished it"
	default:
		return fmt.Sprintf("no worker has taken it up yet; events before it: %d", e.Before)
	}
}

// Find returns those events of Ledger.Queued that take accepts. consumer returns the state of the workers'
// consumer; if it fails, TakenUp and Before are unknown.
func Find(
	ctx context.Context, ledger *events.Ledger, since time.Time, most uint64, take func(events.Event) bool,
	consumer func(context.Context) (*jetstream.ConsumerInfo, error),
) ([]Event, streams.Extent, error) {
	var found []Event
	var sequences, places []uint64 // of the found ones: in the stream, and among the events that were read
	read := uint64(0)
	extent, err := ledger.Queued(ctx, since, most, func(e events.Event, sequence uint64, published time.Time, _ error) error {
		if take(e) {
			found = append(found, Event{Event: e, Published: published.UTC()})
			sequences, places = append(sequences, sequence), append(places, read)
		}
		read++
		return nil
	})
	if len(found) == 0 {
		return nil, extent, err
	}
	info, unknown := consumer(ctx)
	if unknown != nil {
		return found, extent, err
	}
	for i := range found {
		e := &found[i]
		e.TakenUp = new(sequences[i] <= info.Delivered.Stream)
		if behind := read - places[i]; !*e.TakenUp && info.NumPending > behind {
			e.Before = info.NumPending - behind
		}
	}
	return found, extent, err
}
