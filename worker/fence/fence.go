// Package fence keeps decisions of a Redis server that is not the master from having an effect (rule 15 of
// docs/protocol.md). A record in the ledger names the epochs in force, by place. After a decision in Redis, and before
// its effect outside of Redis, a worker compares the epoch of the decision with the record.
package fence

import (
	"context"
	"fmt"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/coalesce"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/crash"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Record reads the epochs in force from the stream's leader: package storage.
type Record interface {
	Epochs(ctx context.Context) (storage.EpochRecord, error)
}

// Fence checks whether epochs are in force. One read of the record serves all callers that were waiting when
// it began. It is safe for concurrent use.
type Fence struct {
	observer observe.Observer
	looks    coalesce.Reading[look]
}

// look is one read of the record.
type look struct {
	began time.Time
	took  time.Duration
	found storage.EpochRecord
}

// New returns a fence that compares with the record.
func New(record Record, observer observe.Observer) *Fence {
	f := &Fence{observer: observer}
	// Not a caller's context, since several callers share the read.
	f.looks.Read = func(context.Context) (look, error) {
		ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
		defer cancel()
		l := look{began: time.Now()}
		err := crash.Guard(func() (err error) { // no handler of an event recovers from a panic in this goroutine
			l.found, err = record.Epochs(ctx)
			return err
		})
		l.took = time.Since(l.began)
		return l, err
	}
	return f
}

// lookLimit is the time-out of a read, so that later callers do not wait for one that hangs.
const lookLimit = 5 * time.Second

// Look reads the record and returns a check against it, which returns nil if all epochs are in force at a moment
// after Look began. Before it calls Look, the caller must have read what fences its effect (the last sequence of
// the reply's subject, or the object's resourceVersion), and must have the decision under these epochs. Errors of
// the check: account.ErrNotInForce; the error of the record or of ctx, after which the epochs may be in force or
// not. The check ignores epochs of older versions, which are in no record.
func (f *Fence) Look(ctx context.Context) account.EpochCheck {
	l, err := f.looks.Get(ctx)
	return func(epochs account.Epochs) error {
		if !fenced(epochs) {
			return nil
		}
		if l.began.IsZero() {
			return err // the context of Look has ended
		}
		found := err
		if found == nil {
			found = compare(l.found.Epochs, epochs)
		}
		f.observer.Fence(ctx, observe.Fence{Duration: l.took, Err: found})
		return found
	}
}

// InForce is Look and its check of the epochs in one call. If all epochs are of older versions (none is
// account.Fenced), it returns nil and reads nothing.
func (f *Fence) InForce(ctx context.Context, epochs account.Epochs) error {
	if !fenced(epochs) {
		return nil
	}
	return f.Look(ctx)(epochs)
}

func fenced(epochs account.Epochs) bool {
	for _, epoch := range epochs {
		if account.Fenced(epoch) {
			return true
		}
	}
	return false
}

// compare returns account.ErrNotInForce, with place and epoch, if a fenced epoch is not the record's.
func compare(inForce, epochs account.Epochs) error {
	for place, epoch := range epochs {
		if account.Fenced(epoch) && inForce[place] != epoch {
			return fmt.Errorf("%s has epoch %s: %w", place, epoch, account.ErrNotInForce)
		}
	}
	return nil
}
