package worker

import (
	"maps"
	"sync"
	"time"
)

const (
	// While HAP_DEAD has no room for their dead letters, a worker keeps up to mostUnburied events pending, but no more
	// than MaxAckPending/unburiedShare (at least one): events count as pending during the redelivery delay too.
	mostUnburied  = 64
	unburiedShare = 64
	// longestUnburied bounds the delay before such an event is redelivered.
	longestUnburied = 5 * time.Minute
)

// unburied is the set of events that a worker keeps pending while HAP_DEAD is full.
type unburied struct {
	most  int
	mu    sync.Mutex
	until map[uint64]time.Time // by sequence: when the event leaves the set if it has not come back; then another worker has it
}

func newUnburied(maxAckPending int) *unburied {
	most := mostUnburied
	if maxAckPending > 0 {
		most = min(max(1, maxAckPending/unburiedShare), mostUnburied)
	}
	return &unburied{most: most, until: map[uint64]time.Time{}}
}

// hold adds an event until a time, and reports whether it may be redelivered. It returns false if the set is
// full. An event that is not redelivered to this worker by then is dropped from the set.
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

// untilRoom returns the redelivery delay after the delivery of that number. It doubles with each delivery, up to
// longestUnburied.
func untilRoom(number uint64) time.Duration {
	return min(time.Second<<min(number, 9), longestUnburied)
}
