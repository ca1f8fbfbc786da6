// Package queued finds events that are not settled, and says how far the workers are with each.
package queued

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// Event is an event that is not settled.
type Event struct {
	events.Event // as far as it can be read

	Published time.Time
	// TakenUp says whether the event was delivered to a worker; nil if the consumer's state is unknown.
	TakenUp *bool
	// Before is how many earlier events, at most, no worker has taken up either, if TakenUp is false.
	Before uint64

	sequence uint64 // in HAP_EVENTS
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

// Find returns the unsettled events that were published at since or later and for which take returns true,
// sorted by sequence. filters maps each subject filter to the number of the newest sequences to search with it.
// all says how much was read. consumer returns the state of the workers' consumer; if it fails, TakenUp is nil.
func Find(
	ctx context.Context, ledger *storage.Ledger, since time.Time, filters map[string]uint64, take func(events.Event) bool,
	consumer func(context.Context) (*jetstream.ConsumerInfo, error),
) (found []Event, all streams.Extent, err error) {
	for filter, most := range filters {
		extent, err := ledger.Queued(ctx, filter, since, most, func(e events.Event, sequence uint64, published time.Time, _ error) error {
			if take(e) {
				found = append(found, Event{Event: e, Published: published.UTC(), sequence: sequence})
			}
			return nil
		})
		all = all.With(extent)
		if err != nil {
			return found, all, err
		}
	}
	slices.SortFunc(found, func(a, b Event) int { return cmp.Compare(a.sequence, b.sequence) })
	found = slices.CompactFunc(found, func(a, b Event) bool { return a.sequence == b.sequence })
	if len(found) > 0 {
		place(ctx, found, consumer)
	}
	return found, all, nil
}

// place sets TakenUp and Before of each event: the consumer delivers events in the order of their sequences. If
// the consumer's state cannot be read, both stay as they are.
func place(ctx context.Context, found []Event, consumer func(context.Context) (*jetstream.ConsumerInfo, error)) {
	info, err := consumer(ctx)
	if err != nil {
		return
	}
	for i := range found {
		e := &found[i]
		e.TakenUp = new(e.sequence <= info.Delivered.Stream)
		if !*e.TakenUp && info.NumPending > 0 { // NumPending is lower if events before it were purged
			e.Before = min(e.sequence-info.Delivered.Stream, info.NumPending) - 1
		}
	}
}
