package history

import (
	"math"
	"time"

	"github.com/hap-worker/hap-worker/ledger/storage"
)

// Rates are kept for Slots slots of length Slot.
const (
	Slots = 60
	Slot  = 10 * time.Second
)

// Rate counts the replies that all workers stored in one slot.
type Rate struct {
	number   int64 // number of the slot since 1970; shows whether an entry of the ring is out of date
	Answers  int   // without sealed replies, with waiting ones
	Rejected int
	Took     Histogram // from the publication of the request to the stored reply
}

func (f *Follower) rate(fact storage.Fact) {
	number := fact.Time.Unix() / int64(Slot/time.Second)
	if number < 0 {
		return
	}
	s := &f.slots[number%Slots]
	if s.number > number {
		return
	}
	if s.number != number {
		*s = Rate{number: number}
	}
	s.Answers++
	if fact.Code != "" {
		s.Rejected++
	}
	if !fact.Published.IsZero() && !fact.Published.After(fact.Time) {
		s.Took.Add(fact.Time.Sub(fact.Published))
	}
}

// Rates returns the rates by slot, oldest first. The last slot is the current one.
func (f *Follower) Rates() []Rate {
	number := f.now().Unix() / int64(Slot/time.Second)
	out := make([]Rate, Slots)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range out {
		of := number - int64(Slots-1-i)
		if s := f.slots[((of%Slots)+Slots)%Slots]; s.number == of {
			out[i] = s
		}
	}
	return out
}

// Histogram counts durations in exponential steps with factor √2, from 100 µs to over a minute.
type Histogram [40]uint32

const firstStep = 100 * time.Microsecond

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	step := 0
	if d > firstStep {
		step = int(math.Ceil(2 * math.Log2(float64(d)/float64(firstStep))))
	}
	h[min(step, len(h)-1)]++
}

// Quantile returns the upper bound of the step that contains the quantile q, from 0 to 1; 0 for an empty
// histogram. Longer durations than the last step, over a minute, count as that step.
func (h *Histogram) Quantile(q float64) time.Duration {
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
