package serving

import "time"

// reliers are the attempts at waiting requests that were seen to rely on network blocks, by their unique name.
// All workers serve all requests, so most of them belong to another worker, which returns the blocks itself. An
// attempt that is seen for longer than Budget has probably stopped, or could not return its blocks.
type reliers struct {
	now  time.Time // start of the round
	seen map[string]sighting
}

// sighting is when an attempt was seen first and last.
type sighting struct{ first, last time.Time }

// keepReliers is how long an attempt is remembered that is not seen again. relierPause is the pause before
// its request is tried again.
const (
	keepReliers = 10 * time.Minute
	relierPause = Budget + time.Second
)

// nextRound begins a round. It drops attempts that were not seen for keepReliers.
func (r *reliers) nextRound(now time.Time) {
	r.now = now
	for relier, at := range r.seen {
		if now.Sub(at.last) > keepReliers {
			delete(r.seen, relier)
		}
	}
}

// lasting reports whether the attempt has been seen for longer than Budget.
func (r *reliers) lasting(relier string) bool {
	at, met := r.seen[relier]
	return met && r.now.Sub(at.first) > Budget
}

// meet records the attempts that are seen now.
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
