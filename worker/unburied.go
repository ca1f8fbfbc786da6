package worker

import (
	"maps"
	"sync"
	"time"
)

const (
	// mostUnburied bounds the events that a worker holds since HAP_DEAD has no room for their
	// dead letters, with unburiedShare of MaxAckPending: they count as pending, also while they pause.
	mostUnburied  = 64
	unburiedShare = 64
	// longestUnburied bounds the pause before such an event comes again.
	longestUnburied = 5 * time.Minute
)

// unburied are the events that a worker holds since HAP_DEAD has no room, by their sequence.
type unburied struct {
	most  int
	mu    sync.Mutex
	until map[uint64]time.Time // by when they have come again
}

func newUnburied(maxAckPending int) *unburied {
	most := mostUnburied
	if maxAckPending > 0 {
		most = min(max(1, maxAckPending/unburiedShare), mostUnburied)
	}
	return &unburied{most: most, until: map[uint64]time.Time{}}
}

// hold notes an event, and reports whether it may come again: false where as many as are
// allowed are held. One that went to another worker is held there.
func (u *unburied) hold(sequence uint64, now, until time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.until, func(_ uint64, end time.Time) bool { return !now.Before(end) })
	if _, held := u.until[sequence]; !held && len(u.until) >= u.most {
		return false
	}
	u.until[sequence] = until
	return true
}

func (u *unburied) forget(sequence uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.until, sequence)
}

// untilRoom is the pause after a delivery of that number.
func untilRoom(number uint64) time.Duration {
	return min(time.Second<<min(number, 9), longestUnburied)
}
