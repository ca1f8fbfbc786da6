package worker

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/waitlist"
)

// waitingRoom is what this worker has read of the waiting room. It belongs to the goroutine
// that serves.
type waitingRoom struct {
	list    *waitlist.List
	read    uint64 // the sequence up to which it was read
	foreign int    // messages that are no requests, as the last comparison found them

	compared time.Time     // the last comparison of list and room
	took     time.Duration // by that
	told     time.Time     // the observer
	changed  bool          // since the observer was told
}

// compareShare is how much longer than a comparison of list and room the pause after it is,
// and compareEvery the longest one: requests that other workers serve leave the list so.
const (
	compareShare = 100
	compareEvery = 10 * time.Minute
	tellEvery    = 15 * time.Second
)

// follow brings the list up to date, and wakes the pools of what is new.
func (w *Worker) follow(ctx context.Context, woken *woken) error {
	if woken.look || woken.all {
		if err := w.compare(ctx); err != nil {
			return err
		}
	}
	read, err := w.room.After(ctx, w.seen.read, func(r events.WaitingRequest) error {
		e := w.seen.list.Put(r)
		w.seen.changed = true
		woken.pool(r.Pool)
		if r.Reason != events.WaitingPoolEmpty {
			w.seen.list.LookAt(e, w.now()) // it may not be in the queue, and what it lacks may have come meanwhile
		}
		return nil
	})
	w.seen.read = read
	return err
}

// compare finds what has left the room, and begins anew where the stream did.
func (w *Worker) compare(ctx context.Context) error {
	s := &w.seen
	messages, last, err := w.room.State(ctx)
	if err != nil {
		return err
	}
	if last < s.read {
		s.list, s.read, s.foreign = waitlist.New(), 0, 0
		return nil
	}
	pause := min(compareShare*s.took, compareEvery)
	if same := messages == uint64(s.list.Len()+s.foreign); same {
		pause = compareEvery
	}
	begin := w.now()
	if !s.compared.IsZero() && begin.Sub(s.compared) < pause && !begin.Before(s.compared) {
		return nil
	}
	subjects, err := w.room.Subjects(ctx)
	if err != nil {
		return err
	}
	before := s.list.Len()
	unknown := s.list.Retain(subjects)
	s.changed = s.changed || s.list.Len() < before
	if last == s.read && unknown != s.foreign {
		// Something stands where nothing is read any more: read all anew, once.
		s.list, s.read = waitlist.New(), 0
	}
	s.foreign, s.compared = unknown, begin
	s.took = w.since(begin)
	return nil
}

// tell tells the observer who waits, where that has changed, and every now and then: a list
// of a hundred thousand is not gone through for each change.
func (w *Worker) tell() {
	now := w.now()
	since := now.Sub(w.seen.told)
	if !w.seen.told.IsZero() && since >= 0 && since < tellEvery && !(w.seen.changed && w.seen.list.Len() < 1000) {
		return
	}
	waits := make([]observe.Waiting, 0, w.seen.list.Len())
	w.seen.list.All(func(e *waitlist.Entry) bool {
		waits = append(waits, observe.Waiting{Pool: e.Pool, Reason: string(e.Reason), Since: e.Since})
		return true
	})
	w.observer.Waiting(waits)
	w.seen.told, w.seen.changed = now, false
}
