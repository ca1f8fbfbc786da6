package shadow

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/shadows"
	"github.com/hap-worker/hap-worker/worker/loop"
)

// Ledger is the shadow's ledger, implemented by package storage.
type Ledger interface {
	// Each calls f for every stored reply that can be read, until f returns an error.
	Each(ctx context.Context, f func(events.Stored) error) error
	// Remove deletes the reply on a subject, unless its sequence in the stream is above upTo.
	Remove(ctx context.Context, subject string, upTo uint64) error
}

// Book stores comparisons, implemented by package shadows.
type Book interface {
	// Add stores a comparison unless its request has one already, and reports whether it stored it.
	Add(ctx context.Context, c shadows.Comparison) (bool, error)
}

// Room is the shadow's waiting room, implemented by package storage.
type Room interface {
	Leave(ctx context.Context, subject string) error
}

// Reality is Gardener as the broker changes it, implemented by package gardener.
type Reality interface {
	Cached(name string) (engine.Binding, bool)
	Shoots(ctx context.Context, f func(engine.Shoot) error) error
}

// Records are the shadow's records in Redis, implemented by package counters.
type Records interface {
	// Pools returns the names of all pools that Redis knows.
	Pools(ctx context.Context) ([]string, error)
	// Discard marks a pool or bucket as not built, and reports whether it was built.
	Discard(ctx context.Context, place string) (bool, error)
}

// refreshEvery is the number of passes over the ledger ("looks") after which Redis is rebuilt even if no label has
// changed and nothing was compared: the deletion of a Shoot is not watched.
const refreshEvery = 20

// Follow compares the shadow's decisions with the broker's choices, and rebuilds Redis from these choices.
// Several shadows may run it at once.
type Follow struct {
	Ledger  Ledger
	Book    Book
	Room    Room
	Reality Reality
	Records Records
	// Rebuild rebuilds discarded pools from ledger, labels and Shoots.
	Rebuild interface {
		Ensure(ctx context.Context) error
	}
	Subjects events.Subjects // the shadow's
	Interval time.Duration   // between two looks
	Patience time.Duration   // how long a decision waits for the Shoot of its runtime to appear

	OnCompared func(context.Context, shadows.Comparison)
	OnFailed   func(context.Context, error) // a look failed and is retried
	OnFollowed func()                       // Redis was rebuilt from the broker's labels and Shoots

	changed atomic.Bool
	now     func() time.Time
}

// Changed records that a label in Gardener has changed, so that the next look rebuilds Redis. It is safe for
// concurrent use.
func (f *Follow) Changed() { f.changed.Store(true) }

// Run looks every Interval until ctx ends: it compares the decisions for which the broker's choice is known. It
// calls Refresh if the look settled a reply, if a label has changed, and at every refreshEvery-th look. now
// returns the time by the clock of the stream that keeps the replies, which says how old they are.
func (f *Follow) Run(ctx context.Context, now func() time.Time) {
	f.now = now
	looks := 0
	loop.Run(ctx, loop.Options{
		Every:  f.Interval,
		Failed: func(err error, _ time.Duration) { f.OnFailed(ctx, err) },
	}, func(ctx context.Context) error {
		looks++
		settled, err := f.look(ctx)
		if settled || f.changed.Load() || looks%refreshEvery == 0 {
			err = errors.Join(err, f.Refresh(ctx))
		}
		return err
	})
}

// Refresh rebuilds Redis from the labels, the Shoots, and the shadow's decisions that the broker has not
// acted on yet. Nothing is decided meanwhile.
func (f *Follow) Refresh(ctx context.Context) error {
	f.changed.Store(false) // before the labels are read: a later change leads to another Refresh
	places, err := f.Records.Pools(ctx)
	if err != nil {
		return err
	}
	for n := range account.Buckets {
		places = append(places, account.BucketName(n))
	}
	for _, place := range places {
		if _, err := f.Records.Discard(ctx, place); err != nil {
			f.changed.Store(true)
			return errors.Join(err, f.Rebuild.Ensure(ctx))
		}
	}
	if err := f.Rebuild.Ensure(ctx); err != nil {
		return err
	}
	f.OnFollowed()
	return nil
}

// look compares each decision for which the broker's choice is known, and removes it from the ledger. After Patience
// it also removes replies that cannot be compared. settled reports whether it removed any.
func (f *Follow) look(ctx context.Context) (settled bool, err error) {
	var replies []events.Stored
	err = f.Ledger.Each(ctx, func(stored events.Stored) error {
		if stored.Reply.Status != events.StatusSealed {
			replies = append(replies, stored)
		}
		return nil
	})
	if err != nil || len(replies) == 0 {
		return false, err
	}
	shoots, err := f.shoots(ctx)
	if err != nil {
		return false, err
	}
	for _, stored := range replies {
		done, err := f.settle(ctx, stored, shoots)
		settled = settled || done
		if err != nil {
			return settled, fmt.Errorf("compare %s: %w", stored.Subject, err)
		}
	}
	return settled, nil
}

// shoots returns the Shoots, also those that are being deleted, by runtime.
func (f *Follow) shoots(ctx context.Context) (map[string]engine.Shoot, error) {
	shoots := map[string]engine.Shoot{}
	err := f.Reality.Shoots(ctx, func(s engine.Shoot) error {
		shoots[account.RuntimeOf(s)] = s
		return nil
	})
	return shoots, err
}

// settle compares a reply with the broker's choice and removes it from the ledger. It returns false, and leaves the
// reply, while that choice is not known, since rebuilds still need the reply. A reply that is not Comparable is
// removed without a comparison, after Patience; one that says that the runtime was released stays as long as its Shoot.
func (f *Follow) settle(ctx context.Context, stored events.Stored, shoots map[string]engine.Shoot) (bool, error) {
	r := stored.Reply
	shoot, there := shoots[r.RuntimeID]
	over := f.now().Sub(stored.Time) > f.Patience
	if !r.Comparable() {
		if !over || there && r.Status == events.StatusReleased {
			return false, nil
		}
		return true, f.Ledger.Remove(ctx, stored.Subject, stored.Sequence)
	}
	s := Sight{Over: over && r.Final()} // a waiting request still gets a final answer
	if there && shoot.Binding != "" {
		s.Shoot, s.Theirs = &shoot, f.binding(shoot.Binding)
	}
	if r.Binding != nil {
		s.Ours = f.binding(r.Binding.Name)
	}
	result, message, done := Compare(r, s)
	if !done {
		return false, nil
	}
	compared := shadows.Comparison{Result: result, Message: message, ComparedAt: f.now().UTC(), KEB: chosen(s), Reply: r}
	first, err := f.Book.Add(ctx, compared)
	if err != nil {
		return false, err
	}
	if first {
		f.OnCompared(ctx, compared)
	}
	return true, f.forget(ctx, stored)
}

func (f *Follow) forget(ctx context.Context, stored events.Stored) error {
	if err := f.Ledger.Remove(ctx, stored.Subject, stored.Sequence); err != nil {
		return err
	}
	r := stored.Reply
	if r.Status != events.StatusWaiting || r.Decision == nil {
		return nil
	}
	return f.Room.Leave(ctx, f.Subjects.Waiting(r.Decision.Pool, r.GlobalAccountID, r.RuntimeID, r.RequestID))
}

func (f *Follow) binding(name string) *engine.Binding {
	if b, known := f.Reality.Cached(name); known {
		return &b
	}
	return nil
}

func chosen(s Sight) *shadows.KEBChoice {
	if s.Shoot == nil {
		return nil
	}
	keb := &shadows.KEBChoice{Shoot: s.Shoot.Name, Binding: s.Shoot.Binding}
	if s.Theirs != nil {
		keb.Pool, keb.Tenant = s.Theirs.Pool().Name(), s.Theirs.Tenant
	}
	return keb
}
