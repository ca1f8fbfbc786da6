// Package fence keeps decisions of a Redis that is not the master any more, or not yet,
// without effect: rule 15 of docs/protocol.md. A record in the ledger names the epoch in
// force of every place; a worker that has decided something looks whether it is that one, before
// anything outside of Redis follows from it.
package fence

import (
	"context"
	"fmt"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/coalesce"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Record is where the epochs in force are kept: package events. It is read from the leader.
type Record interface {
	Epochs(ctx context.Context) (events.EpochRecord, error)
}

// Fence looks whether epochs are in force. One look serves everybody who was waiting when
// it began. It is safe for concurrent use.
type Fence struct {
	observer observe.Observer
	looks    coalesce.Reading[look]
}

// look is one reading of the record.
type look struct {
	began time.Time
	found events.EpochRecord
}

// New returns a fence around the decisions whose epochs a record names.
func New(record Record, observer observe.Observer) *Fence {
	f := &Fence{observer: observer}
	// Not under a caller's context: a look has no event.
	f.looks.Read = func(context.Context) (look, error) {
		ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
		defer cancel()
		l := look{began: time.Now()}
		var err error
		l.found, err = record.Epochs(ctx)
		return l, err
	}
	return f
}

// lookLimit bounds a look, so that those who come later do not wait for one that hangs.
const lookLimit = 5 * time.Second

// InForce returns nil if all these epochs are in force at a moment after it was called. It
// is called after what fences the effect was read: the last sequence of the reply's
// subject, the resourceVersion of the object. Errors: account.ErrNotInForce, and that of
// the record or of ctx, after which nothing is known.
func (f *Fence) InForce(ctx context.Context, epochs account.Epochs) error {
	if !fenced(epochs) {
		return nil
	}
	l, err := f.looks.Get(ctx)
	if l.began.IsZero() {
		return err // ctx has ended
	}
	if err == nil {
		err = compare(l.found.Epochs, epochs)
	}
	f.observer.Fence(ctx, observe.Fence{Duration: time.Since(l.began), Err: err})
	return err
}

func fenced(epochs account.Epochs) bool {
	for _, epoch := range epochs {
		if account.Fenced(epoch) {
			return true
		}
	}
	return false
}

// compare returns account.ErrNotInForce for the first epoch that is not the record's.
func compare(inForce, epochs account.Epochs) error {
	for place, epoch := range epochs {
		if account.Fenced(epoch) && inForce[place] != epoch {
			return fmt.Errorf("%s has epoch %s: %w", place, epoch, account.ErrNotInForce)
		}
	}
	return nil
}
