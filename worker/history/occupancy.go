package history

import (
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// Window is a span of time in steps.
type Window struct {
	Name  string
	Step  time.Duration
	Steps int
}

// Day is the window of 24 hours that is kept of every pool.
func Day() Window { return Window{"24 hours", 15 * time.Minute, 96} }

// Month is the window of 30 days that is kept of every pool.
func Month() Window { return Window{"30 days", 6 * time.Hour, 120} }

// Back is a window from now to at least that long ago, in so many steps of whole seconds.
func Back(how time.Duration, steps int) Window {
	step := (how + time.Duration(steps) - 1) / time.Duration(steps)
	return Window{Step: max(time.Second, (step + time.Second - 1).Truncate(time.Second)), Steps: steps}
}

// Length is how long a window is.
func (w Window) Length() time.Duration { return w.Step * time.Duration(w.Steps) }

// mostPools bounds the pools whose changes are kept.
const mostPools = 1000

// Occupancy has what changed in each pool within the steps of some windows: sums, however
// many replies there are. It is not safe for concurrent use.
type Occupancy struct {
	now     func() time.Time
	windows []Window
	longest time.Duration
	pools   map[string]*pool
}

// NewOccupancy returns an Occupancy of these windows that nothing has changed in.
func NewOccupancy(now func() time.Time, windows ...Window) *Occupancy {
	o := &Occupancy{now: now, windows: windows, pools: map[string]*pool{}}
	for _, w := range windows {
		o.longest = max(o.longest, w.Length())
	}
	return o
}

// Change says what changed in a pool within one step.
type Change struct {
	number int64 // of the step since 1970
	Taken  int   // accounts that were claimed
	Freed  int   // accounts that came back
	Came   int   // clusters
	Left   int
}

// pool has what changed in it, and which decisions that tells already.
type pool struct {
	rings [][]Change            // one for each window
	seen  map[int64]*[64]uint64 // by decision, 4,096 in each
}

// first reports whether a decision was not told yet: an answer that is given again under
// another request's id has the decision of the first one.
func (p *pool) first(decision int64) bool {
	if decision <= 0 {
		return true
	}
	page := p.seen[decision>>12]
	if page == nil {
		page = new([64]uint64)
		p.seen[decision>>12] = page
	}
	word, bit := &page[decision>>6&63], uint64(1)<<(decision&63)
	told := *word&bit != 0
	*word |= bit
	return !told
}

// Take counts what a reply says of its pool. The replies are to come in the order of the ledger.
func (o *Occupancy) Take(fact events.Fact) {
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
		return
	}
	if fact.Binding == "" || fact.Pool == "" || o.now().Sub(fact.Time) > o.longest {
		return
	}
	p := o.pools[fact.Pool]
	if p == nil {
		if len(o.pools) >= mostPools {
			return
		}
		p = &pool{seen: map[int64]*[64]uint64{}}
		for _, w := range o.windows {
			p.rings = append(p.rings, make([]Change, w.Steps))
		}
		o.pools[fact.Pool] = p
	}
	if !p.first(fact.Sequence) {
		return
	}
	for i, w := range o.windows {
		w.count(p.rings[i], fact.Time, c)
	}
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

// Changes returns what changed in a pool in the steps of one of the windows, oldest first.
// The last step is the one that goes on.
func (o *Occupancy) Changes(of string, w Window) []Change {
	out := make([]Change, w.Steps)
	p, window := o.pools[of], slices.Index(o.windows, w)
	if p == nil || window < 0 {
		return out
	}
	ring, last := p.rings[window], w.number(o.now())
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

// Changes returns what changed in a pool in the steps of a window, Day or Month, as
// Occupancy has it.
func (f *Follower) Changes(of string, w Window) []Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.occupancy.Changes(of, w)
}

// Level is how much of a pool was in use at the end of a step.
type Level struct{ Accounts, Clusters int }

// Levels goes back from what is in use now, step by step; the last one is now. What the
// ledger does not tell, such as a label that was changed by hand, is as it is now.
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
