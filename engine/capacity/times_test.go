package capacity_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/capacity"
)

// watched returns the observations of n exponential lives within a window, as the ledger sees clusters.
func watched(random *rand.Rand, mean, window time.Duration, n int) []capacity.Observation {
	var seen []capacity.Observation
	for range n {
		// Births from ten means before the window to its end.
		born := time.Duration(random.Float64()*float64(10*mean+window)) - 10*mean
		end := born + time.Duration(random.ExpFloat64()*float64(mean))
		if end < 0 {
			continue
		}
		o := capacity.Observation{From: max(0, -born), To: end - born, Ended: true}
		if end > window {
			o.To, o.Ended = window-born, false
		}
		seen = append(seen, o)
	}
	return seen
}

// A window shorter than the lives still yields their length: lives that began before it, and lives that
// outlast it, are accounted for.
func TestObservedTimesHaveTheirMean(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	observed := capacity.Observe(watched(random, 10*day, 7*day, 200_000))
	if median := observed.Median(); math.Abs(float64(median)/float64(10*day)-math.Ln2) > 0.05 {
		t.Errorf("the median is %s, must be close to 10 days times ln 2", median)
	}
	for _, age := range []time.Duration{0, 5 * day, 15 * day, 400 * day} {
		var sum float64
		const draws = 20_000
		for range draws {
			sum += float64(observed.Rest(random, age))
		}
		if mean := time.Duration(sum / draws); math.Abs(float64(mean)/float64(10*day)-1) > 0.1 {
			t.Errorf("from the age of %s on they last %s in the mean, must be close to %s", age, mean, 10*day)
		}
	}
}

func TestTimesWithoutAnEnd(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for name, all := range map[string][]capacity.Observation{
		"nothing": nil, "no end": {{To: day}}, "contradictory": {{From: 2 * day, To: day, Ended: true}},
	} {
		observed := capacity.Observe(all)
		if rest := observed.Rest(random, 0); rest != capacity.Never || observed.Median() != capacity.Never {
			t.Errorf("%s: ends after %s, the median is %s; no end was seen", name, rest, observed.Median())
		}
	}
	if rest := capacity.Observe([]capacity.Observation{{Ended: true}}).Rest(random, 0); rest > time.Second {
		t.Errorf("what ends at once lasts %s", rest)
	}
	if rest := capacity.Fixed(time.Hour).Rest(random, 2*time.Hour); rest != 0 {
		t.Errorf("what is over lasts %s more", rest)
	}
}

// Remaining times lead to an observed age, beyond the age that was reached.
func TestRestOfObservedTimes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	observed := capacity.Observe([]capacity.Observation{{To: 1 * day, Ended: true}, {To: 2 * day, Ended: true}, {To: 4 * day, Ended: true}})
	counts := map[time.Duration]int{}
	for range 3000 {
		counts[observed.Rest(random, 36*time.Hour)]++
	}
	for rest, n := range counts {
		if rest != 12*time.Hour && rest != 60*time.Hour || n < 1300 {
			t.Errorf("from 36h on: %d of 3000 last %s; half are to end at the age of 2 days, half at 4", n, rest)
		}
	}
}
