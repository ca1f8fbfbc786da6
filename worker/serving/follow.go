package serving

import (
	"context"
	"fmt"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/waitlist"
)

// waitingRoom is this worker's index of the waiting room. Only the goroutine that serves uses it.
type waitingRoom struct {
	list    *waitlist.List
	read    uint64 // sequence up to which the room was read
	foreign int    // messages without an entry in the last comparison: they are no requests

	compared time.Time     // start of the last comparison of list and room
	took     time.Duration // duration of the last comparison
	told     time.Time     // last report to the observer
	changed  bool          // the list has changed since that report
	latest   time.Time     // latest time by the clock since the last call of follow
}

// A comparison of list and room removes the requests that other workers have served. The pause after a
// comparison is compareShare times its duration, at most compareEvery. While list and room have the same
// number of messages, it is compareEvery.
const (
	compareShare = 100
	compareEvery = 10 * time.Minute
	tellEvery    = 15 * time.Second
)

// follow reads new requests into the list, and wakes their pools. At a look and after Wake it first compares list
// and room. After Wake it reads all requests again, not only the new ones.
func (s *Rounds) follow(ctx context.Context, woken *woken) error {
	now := s.Now()
	if s.seen.latest.Sub(now) > retryAfter {
		s.seen.list.Back(now)
	}
	s.seen.latest = now
	if woken.look || woken.all {
		if err := s.compare(ctx); err != nil {
			// Those that have left are found gone when they are tried.
			s.Observer.Retry(ctx, observe.Retry{Type: "waiting", Err: fmt.Errorf("compare with the room: %w", err)})
		}
	}
	from := s.seen.read
	if woken.all {
		from = 0 // Elsewhere needs whole requests, which the list does not store
	}
	read, err := s.Room.After(ctx, from, func(r storage.WaitingRequest) error {
		e := s.seen.list.Put(r)
		s.seen.changed = true
		woken.pool(r.Pool)
		if r.Reason != events.WaitingPoolEmpty || s.Elsewhere(r) {
			s.seen.list.LookAt(e, s.present()) // it may not be in Redis' queue, so no wake of its pool reaches it
		}
		return nil
	})
	s.seen.read = read
	return err
}

// present returns the time from which due times are computed. It notes the latest one, so that follow notices a clock
// that was set back since.
func (s *Rounds) present() time.Time {
	now := s.Now()
	if now.After(s.seen.latest) {
		s.seen.latest = now
	}
	return now
}

// compare removes from the list the requests that have left the room. If the room's last sequence is lower than what
// was read, the stream was recreated, and compare empties the list. Otherwise it does nothing during the pause after
// the last comparison.
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
	room.compared, room.took = begin, s.Now().Sub(begin)
	if err != nil {
		return err
	}
	if messages > subjectsOfAPage {
		s.confirm(ctx, subjects)
	}
	before := room.list.Len()
	unknown := room.list.Retain(subjects)
	room.changed = room.changed || room.list.Len() < before
	if last == room.read && unknown != room.foreign {
		// The room has a message that was not read although its sequence was passed. Read
		// everything again, once.
		room.list, room.read = waitlist.New(), 0
	}
	room.foreign, room.took = unknown, s.Now().Sub(begin)
	return nil
}

// NATS lists subjects in pages of subjectsOfAPage. A request that leaves between two pages shifts another one out of
// the list, so of a longer list each removal is confirmed, mostConfirmed of them in one comparison.
const (
	subjectsOfAPage = 100_000
	mostConfirmed   = 1000
)

// confirm adds to subjects the requests that are not among them but may be in the room.
func (s *Rounds) confirm(ctx context.Context, subjects map[string]uint64) {
	confirmed := 0
	s.seen.list.All(func(e *waitlist.Entry) bool {
		if subjects[e.Subject] > 0 {
			return true
		}
		if confirmed++; confirmed <= mostConfirmed {
			if _, found, err := s.Room.Get(ctx, e.Subject); err == nil && !found {
				return true
			}
		}
		subjects[e.Subject] = 1
		return true
	})
}

// tell reports the waiting requests to the observer: each tellEvery, and after each change while the list is
// short. A long list is too expensive to report after each change.
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
