package capacity

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Times is a distribution of durations.
type Times interface {
	// Rest draws the remaining time of something that has lasted for age; Never if it does not end.
	Rest(random *rand.Rand, age time.Duration) time.Duration
}

// Exponential is a distribution whose remaining time does not depend on the age. The value is its mean.
type Exponential time.Duration

// Rest draws a remaining time.
func (e Exponential) Rest(random *rand.Rand, _ time.Duration) time.Duration {
	return scaled(random.ExpFloat64(), time.Duration(e))
}

// scaled returns a multiple of a duration, Never on overflow.
func scaled(factor float64, of time.Duration) time.Duration {
	if x := factor * float64(of); x < float64(Never) {
		return time.Duration(x)
	}
	return Never
}

// Fixed is one duration for all.
type Fixed time.Duration

// Rest returns the time that is left after age, 0 if age is longer.
func (f Fixed) Rest(_ *rand.Rand, age time.Duration) time.Duration {
	return max(0, time.Duration(f)-age)
}

// Observation is a stretch of a life that was observed, from one age to another. Ended is set if the life
// ended at To.
type Observation struct {
	From, To time.Duration
	Ended    bool
}

// Observed is the product-limit estimate (Kaplan and Meier, with late entry) of observed durations. It
// accounts for lives that began before the observation and for lives that outlast it. Beyond the oldest
// observed end, lives end at their average rate.
type Observed struct {
	ages     []time.Duration // of the ends, ascending
	survival []float64       // the share that lives on after each
	mean     time.Duration   // time watched for each end; Never without an end
}

// Observe estimates the distribution. An observation whose To equals its From counts only as an end, if it
// ended; one with To before From is ignored.
func Observe(all []Observation) *Observed {
	var ends, entries, exits []time.Duration
	var watched float64
	for _, o := range all {
		if o.To < o.From {
			continue
		}
		watched += float64(o.To - o.From)
		entries, exits = append(entries, o.From), append(exits, o.To)
		if o.Ended {
			ends = append(ends, o.To)
		}
	}
	t := &Observed{mean: Never}
	if len(ends) > 0 {
		t.mean = max(1, time.Duration(watched/float64(len(ends))))
	}
	slices.Sort(ends)
	slices.Sort(entries)
	slices.Sort(exits)
	survival, entered, left := 1.0, 0, 0
	for i := 0; i < len(ends); {
		age, died := ends[i], 0
		for i < len(ends) && ends[i] == age {
			i, died = i+1, died+1
		}
		for entered < len(entries) && (entries[entered] < age || entries[entered] == age && age == 0) {
			entered++
		}
		for left < len(exits) && exits[left] < age {
			left++
		}
		watchedAtAge := max(died, entered-left)
		survival *= 1 - float64(died)/float64(watchedAtAge)
		t.ages, t.survival = append(t.ages, age), append(t.survival, survival)
	}
	return t
}

// Ends is the number of distinct ages at which a life was seen to end.
func (t *Observed) Ends() int { return len(t.ages) }

// Median is the age that half of the lives reach; Never if no end was observed.
func (t *Observed) Median() time.Duration {
	for i, s := range t.survival {
		if s <= 0.5 {
			return t.ages[i]
		}
	}
	if t.mean == Never {
		return Never
	}
	age, s := t.last()
	return age + scaled(math.Log(2*s), t.mean)
}

// last returns the oldest observed age of an end, and the share that survives it.
func (t *Observed) last() (time.Duration, float64) {
	if len(t.ages) == 0 {
		return 0, 1
	}
	return t.ages[len(t.ages)-1], t.survival[len(t.survival)-1]
}

// Rest draws the remaining time of a life from those that reached the age; Never if no end was observed.
func (t *Observed) Rest(random *rand.Rand, age time.Duration) time.Duration {
	if t.mean == Never {
		return Never
	}
	oldest, tail := t.last()
	reached := t.at(age)
	if age >= oldest || reached <= 0 {
		return scaled(random.ExpFloat64(), t.mean)
	}
	rank := random.Float64() * reached
	if rank < tail {
		return oldest - age + scaled(random.ExpFloat64(), t.mean)
	}
	at, _ := slices.BinarySearchFunc(t.survival, rank, func(s, rank float64) int { return cmp.Compare(rank, s) })
	for at < len(t.ages) && (t.survival[at] > rank || t.ages[at] <= age) {
		at++
	}
	if at == len(t.ages) {
		return oldest - age
	}
	return t.ages[at] - age
}

// at is the share that survives an age.
func (t *Observed) at(age time.Duration) float64 {
	at, found := slices.BinarySearch(t.ages, age)
	switch {
	case found:
		return t.survival[at]
	case at == 0:
		return 1
	default:
		return t.survival[at-1]
	}
}
