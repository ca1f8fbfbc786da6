// Package clock estimates the time of a store's clock. Workers use the store's clock to decide, for example,
// whether a deadline has passed, so that all decide the same: the clocks of their machines may differ by
// hours.
package clock

import (
	"sync/atomic"
	"time"
)

// Tolerated is the offset of this machine's clock from a store's from which on an operator should be told. No
// decision depends on it.
const Tolerated = 2 * time.Second

// Clock estimates the clock of a store. Before the first measurement it shows the machine's time. It is safe
// for concurrent use.
type Clock struct {
	machine func() time.Time
	offset  atomic.Int64 // of the store's clock from the machine's, in nanoseconds
	tell    func(offset time.Duration)
}

// New returns a clock. machine returns the machine's time; nil means time.Now. told may be nil; it is called
// after each measurement with the time by which the store's clock is ahead.
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

// Measure updates the offset. The store's answer has the time said; the request was sent at the machine's
// time asked. It ignores a zero said: the store did not send its time.
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
