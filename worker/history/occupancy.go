package history

import (
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// Window is a time span, divided into steps.
type Window struct {
	Name  string
	Step  time.Duration
	Steps int
}

// Day returns the window of 24 hours that a Follower keeps for each of up to mostPools pools.
func Day() Window { return Window{"24 hours", 15 * time.Minute, 96} }

// Month returns the window of 30 days that a Follower keeps for each of up to mostPools pools.
func Month() Window { return Window{"30 days", 6 * time.Hour, 120} }

// Back returns a window of the given number of steps that is at least as long as how. A step is a whole
// number of seconds.
func Back(how time.Duration, steps int) Window {
	step := (how + time.Duration(steps) - 1) / time.Duration(steps)
	return Window{Step: max(time.Second, (step + time.Second - 1).Truncate(time.Second)), Steps: steps}
}

// Length returns the length of a window.
func (w Window) Length() time.Duration { return w.Step * time.Duration(w.Steps) }

// mostPools bounds the number of pools. Changes of further pools are dropped.
const mostPools = 1000

// Occupancy sums the changes of each pool for each step of its windows. It is not safe for concurrent use.
type Occupancy struct {
	now     func() time.Time
	windows []Window
	longest time.Duration
	pools   map[string][][]Change // a ring buffer for each window
	counted Decisions
}

// NewOccupancy returns an empty Occupancy with these windows.
func NewOccupancy(now func() time.Time, windows ...Window) *Occupancy {
	o := &Occupancy{now: now, windows: windows, pools: map[string][][]Change{}, counted: Decisions{}}
	for _, w := range windows {
		o.longest = max(o.longest, w.Length())
	}
	return o
}

// Change is the sum of the changes in a pool within one step.
type Change struct {
	number int64 // number of the step since 1970
	Taken  int   // accounts that were claimed
	Freed  int   // accounts that were cleaned and returned
	Came   int   // clusters that were assigned
	Left   int   // clusters that were deprovisioned
}

// Take counts the change of a reply: an assignment, a release of a runtime, or the return of an account. It
// ignores a reply that names no binding or no pool, is about a pool beyond mostPools, is older than the longest
// window, or repeats a decision that was taken before. It reports whether the reply is such a repeat. Replies have
// to come in the order of the ledger.
func (o *Occupancy) Take(fact storage.Fact) (repeats bool) {
	var c Change
	switch fact.Status {
	case events.StatusAssigned:
		c.Came = 1
		if fact.Claimed {
			c.Taken = 1
		}
	case events.StatusReleased:
		c.Left = 1
	case events.StatusReturned:
		c.Freed = 1
	case events.StatusWaiting, events.StatusResolved, events.StatusRejected, events.StatusSealed:
		return false
	}
	if fact.Binding == "" || fact.Pool == "" {
		return false
	}
	rings := o.pools[fact.Pool]
	if rings == nil {
		if len(o.pools) >= mostPools {
			return false
		}
		for _, w := range o.windows {
			rings = append(rings, make([]Change, w.Steps))
		}
		o.pools[fact.Pool] = rings
	}
	// A fact before the windows marks its decision too: an extra reply may repeat it much later.
	if !o.counted.First(fact.Pool, fact.Sequence) {
		return true
	}
	if o.now().Sub(fact.Time) > o.longest {
		return false
	}
	for i, w := range o.windows {
		w.count(rings[i], fact.Time, c)
	}
	return false
}

func (w Window) number(at time.Time) int64 { return at.Unix() / int64(w.Step/time.Second) }

func (w Window) count(ring []Change, at time.Time, c Change) {
	number := w.number(at)
	if number < 0 {
		return
	}
	s := &ring[number%int64(w.Steps)]
	if s.number > number {
		return
	}
	if s.number != number {
		*s = Change{number: number}
	}
	s.Taken, s.Freed, s.Came, s.Left = s.Taken+c.Taken, s.Freed+c.Freed, s.Came+c.Came, s.Left+c.Left
}

// Changes returns the changes of a pool by step, oldest first. The last step is the current one. For an
// unknown pool or window all are zero.
func (o *Occupancy) Changes(of string, w Window) []Change {
	out := make([]Change, w.Steps)
	rings, window := o.pools[of], slices.Index(o.windows, w)
	if rings == nil || window < 0 {
		return out
	}
	ring, last := rings[window], w.number(o.now())
	for i := range out {
		number := last - int64(w.Steps-1-i)
		if number < 0 {
			continue
		}
		if c := ring[number%int64(w.Steps)]; c.number == number {
			out[i] = c
		}
	}
	return out
}

// Changes returns the changes of a pool by the steps of Day or Month, like Occupancy.Changes.
func (f *Follower) Changes(of string, w Window) []Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.occupancy.Changes(of, w)
}

// Level is how much of a pool was in use at the end of a step.
type Level struct{ Accounts, Clusters int }

// Levels computes the level at the end of each step, backwards from the level now, which is the last one.
// Changes that are not in the ledger, such as labels changed by hand, are missing, so earlier levels may be
// off.
func Levels(changes []Change, now Level) []Level {
	out := make([]Level, len(changes))
	for i := len(changes) - 1; i >= 0; i-- {
		out[i] = Level{max(0, now.Accounts), max(0, now.Clusters)}
		c := changes[i]
		now.Accounts += c.Freed - c.Taken
		now.Clusters += c.Left - c.Came
	}
	return out
}
