package serving

import "time"

// reliers are the handlings of waiting requests that were seen to rely on network blocks.
// Every worker serves every request, so that one often meets those of another worker, which
// return their blocks themselves. One that is met for longer than a handling lasts was
// stopped, or could not return them. Each handling has its own name.
type reliers struct {
	now  time.Time // the beginning of the round
	seen map[string]sighting
}

// sighting is when a handling was met first and last.
type sighting struct{ first, last time.Time }

// keepReliers is for how long one that is not met again is remembered. A request that has
// one is looked at again after relierPause.
const (
	keepReliers = 10 * time.Minute
	relierPause = Budget + time.Second
)

// nextRound begins a round. Those that were not met for long are forgotten.
func (r *reliers) nextRound(now time.Time) {
	r.now = now
	for relier, at := range r.seen {
		if now.Sub(at.last) > keepReliers {
			delete(r.seen, relier)
		}
	}
}

// lasting reports whether one was met for longer than a handling lasts.
func (r *reliers) lasting(relier string) bool {
	at, met := r.seen[relier]
	return met && r.now.Sub(at.first) > Budget
}

// meet notes those that are met now.
func (r *reliers) meet(met []string, now time.Time) {
	for _, relier := range met {
		at, known := r.seen[relier]
		if !known || now.Before(at.first) { // the clock was set back
			at.first = now
		}
		at.last = now
		if r.seen == nil {
			r.seen = map[string]sighting{}
		}
		r.seen[relier] = at
	}
}
