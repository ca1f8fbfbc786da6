package serving

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/waitlist"
)

// waitingRoom has what this worker has read of the waiting room. It belongs to the goroutine
// that serves.
type waitingRoom struct {
	list    *waitlist.List
	read    uint64 // the sequence up to which it was read
	foreign int    // messages that are no requests, as the last comparison found them

	compared time.Time     // the last comparison of list and room
	took     time.Duration // by that
	told     time.Time     // the observer
	changed  bool          // since the observer was told
	latest   time.Time     // when it was brought up to date
}

// compareShare is how much longer than a comparison of list and room the pause after it is,
// and compareEvery the longest one: requests that other workers serve leave the list so.
const (
	compareShare = 100
	compareEvery = 10 * time.Minute
	tellEvery    = 15 * time.Second
)

// follow brings the list up to date, and wakes the pools of what is new.
func (s *Rounds) follow(ctx context.Context, woken *woken) error {
	now := s.Now()
	if s.seen.latest.Sub(now) > retryAfter {
		s.seen.list.Back(now)
	}
	s.seen.latest = now
	if woken.look || woken.all {
		if err := s.compare(ctx); err != nil {
			return err
		}
	}
	from := s.seen.read
	if woken.all {
		from = 0 // what the list does not have of a request decides where the rules lead it
	}
	read, err := s.Room.After(ctx, from, func(r events.WaitingRequest) error {
		e := s.seen.list.Put(r)
		s.seen.changed = true
		woken.pool(r.Pool)
		if r.Reason != events.WaitingPoolEmpty || s.Elsewhere(r) {
			s.seen.list.LookAt(e, s.Now()) // it may not be in the queue, and what it lacks may have come meanwhile
		}
		return nil
	})
	s.seen.read = read
	return err
}

// compare finds what has left the room, and begins anew where the stream did.
func (s *Rounds) compare(ctx context.Context) error {
	room := &s.seen
	messages, last, err := s.Room.State(ctx)
	if err != nil {
		return err
	}
	if last < room.read {
		room.list, room.read, room.foreign = waitlist.New(), 0, 0
		return nil
	}
	pause := min(compareShare*room.took, compareEvery)
	if same := messages == uint64(room.list.Len()+room.foreign); same {
		pause = compareEvery
	}
	begin := s.Now()
	if !room.compared.IsZero() && begin.Sub(room.compared) < pause && !begin.Before(room.compared) {
		return nil
	}
	subjects, err := s.Room.Subjects(ctx)
	if err != nil {
		return err
	}
	before := room.list.Len()
	unknown := room.list.Retain(subjects)
	room.changed = room.changed || room.list.Len() < before
	if last == room.read && unknown != room.foreign {
		// Something stands where nothing is read any more: read all anew, once.
		room.list, room.read = waitlist.New(), 0
	}
	room.foreign, room.compared = unknown, begin
	room.took = s.Now().Sub(begin)
	return nil
}

// tell tells the observer who waits, where that has changed, and every now and then: a list
// of a hundred thousand is not gone through for each change.
func (s *Rounds) tell() {
	now := s.Now()
	since := now.Sub(s.seen.told)
	if !s.seen.told.IsZero() && since >= 0 && since < tellEvery && !(s.seen.changed && s.seen.list.Len() < 1000) {
		return
	}
	waits := make([]observe.Waiting, 0, s.seen.list.Len())
	s.seen.list.All(func(e *waitlist.Entry) bool {
		waits = append(waits, observe.Waiting{Pool: e.Pool, Reason: string(e.Reason), Since: e.Since})
		return true
	})
	s.Observer.Waiting(waits)
	s.seen.told, s.seen.changed = now, false
}
