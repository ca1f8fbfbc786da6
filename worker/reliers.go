package worker

import "time"

// reliers are the handlings of waiting requests that the last rounds have seen to rely on
// network blocks. Every worker serves every request, so that a round often meets those of
// another worker, which return their blocks themselves. One that is met for longer than a
// handling lasts was stopped, or could not return them.
type reliers struct {
	round         time.Time            // its beginning
	before, found map[string]time.Time // when each was first met, of the round before and of this one
}

// nextRound begins a round. Those that the round before has not met are forgotten.
func (r *reliers) nextRound(now time.Time) {
	r.round, r.before, r.found = now, r.found, map[string]time.Time{}
}

// lasting reports whether one was met for longer than a handling lasts.
func (r *reliers) lasting(relier string) bool {
	first, met := r.before[relier]
	return met && r.round.Sub(first) > serveBudget
}

// seen notes those that are met now.
func (r *reliers) seen(met []string, now time.Time) {
	for _, relier := range met {
		first, known := r.before[relier]
		if !known || now.Before(first) { // the clock was set back
			first = now
		}
		r.found[relier] = first
	}
}
