// Package clock estimates the time of a store's clock. Workers use the store's clock to decide, for example,
// whether a deadline has passed, so that all decide the same: the clocks of their machines may differ by
// hours.
package clock

import (
	"sync/atomic"
	"time"
)

// Tolerated is the largest offset between this machine's clock and a store's of which an operator need not be
// told. No decision depends on it.
const Tolerated = 2 * time.Second

// Clock estimates the clock of a store. Before the first measurement it shows the machine's time. It is safe
// for concurrent use.
type Clock struct {
	machine func() time.Time
	offset  atomic.Int64 // how far the store's clock is ahead of the machine's, in nanoseconds
	tell    func(offset time.Duration)
}

// New returns a clock. machine returns the machine's time; nil means time.Now. told may be nil; it is called
// after each measurement with the time by which the store's clock is ahead, negative if it is behind.
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

// Offset returns by how much the store's clock is ahead of the machine's.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Measure updates the offset from an answer of the store: said is the store's time in it, and asked is the
// machine's time when the request was sent. A zero said changes nothing: the store did not send its time.
func (c *Clock) Measure(asked, said time.Time) {
	if said.IsZero() {
		return
	}
	// The store answered between asked and now. A time within that range counts as no offset.
	var offset time.Duration
	if ahead := said.Sub(c.machine()); ahead > 0 {
		offset = ahead
	} else if behind := said.Sub(asked); behind < 0 {
		offset = behind
	}
	c.offset.Store(int64(offset))
	c.tell(offset)
}
