// Package clock tells the time by the clock of a store. What several workers decide about
// something stored, such as whether a deadline has passed, is decided by one clock for all of
// them: that of the store which holds it. The clock of a machine may be hours off.
package clock

import (
	"sync/atomic"
	"time"
)

// Tolerated is how far the clock of this machine may be from a store's before an operator has to
// look at it. Decisions do not depend on it.
const Tolerated = 2 * time.Second

// Clock is the clock of a store, as far as it was measured; before that it is the machine's.
// It is safe for concurrent use.
type Clock struct {
	machine func() time.Time
	offset  atomic.Int64 // of the store's clock from the machine's, in nanoseconds
	tell    func(offset time.Duration)
}

// New returns a clock on that of the machine, nil for time.Now. Told, which may be nil, hears
// of each measurement how far the store's clock is ahead.
func New(machine func() time.Time, told func(offset time.Duration)) *Clock {
	if machine == nil {
		machine = time.Now
	}
	if told == nil {
		told = func(time.Duration) {}
	}
	return &Clock{machine: machine, tell: told}
}

// Now returns the time by the store's clock.
func (c *Clock) Now() time.Time { return c.machine().Add(c.Offset()) }

// Offset returns how far the store's clock is ahead of the machine's.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Measure notes what the store's clock said in an answer to a question that was asked at
// a time by the machine's clock. A store that does not tell the time says zero.
func (c *Clock) Measure(asked, said time.Time) {
	if said.IsZero() {
		return
	}
	// The answer was given between the question and now: that much is no difference.
	var offset time.Duration
	if ahead := said.Sub(c.machine()); ahead > 0 {
		offset = ahead
	} else if behind := said.Sub(asked); behind < 0 {
		offset = behind
	}
	c.offset.Store(int64(offset))
	c.tell(offset)
}
