package page

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/worker/observe"
)

const (
	keepEvents = 100              // that are shown one by one
	slots      = 60               // of the plots
	slot       = 10 * time.Second // each
)

// Recent remembers what this worker did last. OnEvent is a callback of a
// observe.Observer: it takes a moment and never waits for a reader.
type Recent struct {
	now func() time.Time

	mu    sync.Mutex
	ring  [keepEvents]done
	next  int // where the next event goes
	slots [slots]rate
}

// done is an event that was settled.
type done struct {
	At time.Time
	observe.Event
}

// rate is what happened in one slot of time.
type rate struct {
	number   int64 // of the slot since 1970; another one's numbers are old
	events   int
	rejected int
	took     histogram
}

// NewRecent remembers nothing yet.
func NewRecent() *Recent { return &Recent{now: time.Now} }

// OnEvent takes in an event that was settled.
func (r *Recent) OnEvent(_ context.Context, i observe.Event) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.next] = done{At: now, Event: i}
	r.next = (r.next + 1) % keepEvents
	number := now.Unix() / int64(slot/time.Second)
	s := &r.slots[number%slots]
	if s.number != number {
		*s = rate{number: number}
	}
	s.events++
	if i.Code != "" {
		s.rejected++
	}
	s.took.add(i.Duration)
}

// events gives up to n of the last ones, newest first.
func (r *Recent) events(n int) []done {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []done
	for i := 1; i <= keepEvents && len(out) < n; i++ {
		e := r.ring[(r.next-i+keepEvents)%keepEvents]
		if e.At.IsZero() {
			break
		}
		out = append(out, e)
	}
	return out
}

// rates gives the slots, oldest first; the last one is the one that goes on.
func (r *Recent) rates() []rate {
	number := r.now().Unix() / int64(slot/time.Second)
	out := make([]rate, slots)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range out {
		of := number - int64(slots-1-i)
		if s := r.slots[((of%slots)+slots)%slots]; s.number == of {
			out[i] = s
		}
	}
	return out
}

// histogram counts durations in steps of the square root of two, from 100 µs.
type histogram [40]uint32

const firstStep = 100 * time.Microsecond

func (h *histogram) add(d time.Duration) {
	step := 0
	if d > firstStep {
		step = int(math.Ceil(2 * math.Log2(float64(d)/float64(firstStep))))
	}
	h[min(step, len(h)-1)]++
}

// quantile gives the upper bound of the step that has it; 0 without any.
func (h *histogram) quantile(q float64) time.Duration {
	total := uint32(0)
	for _, n := range h {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank, seen := uint32(math.Ceil(q*float64(total))), uint32(0)
	for step, n := range h {
		if seen += n; seen >= rank {
			return time.Duration(float64(firstStep) * math.Pow(2, float64(step)/2))
		}
	}
	return 0
}
