package loop

import (
	"sync"
	"time"
)

// Pace limits work that grows with the landscape: after each turn it rests 500 times as long, so that the work takes
// no more than 0.2 % of the time, unless a turn takes more than 0.6 s. The first turn is due. It is safe for concurrent
// use.
type Pace struct {
	mu    sync.Mutex
	next  time.Time
	ended time.Time // when End was last called
}

const (
	// rests is how many times as long as a turn the rest after it is, if that is less than longestRest.
	rests       = 500
	longestRest = 5 * time.Minute
)

// Due reports whether the rest is over.
func (p *Pace) Due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !time.Now().Before(p.next)
}

// Rest begins the rest after a turn that began at begin, unless End was called since.
func (p *Pace) Rest(begin time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.ended.Before(begin) {
		p.next = now.Add(min(rests*now.Sub(begin), longestRest))
	}
}

// End ends the rest, and lets none follow the turn that may be running: there is something that it may have missed.
func (p *Pace) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.ended = time.Time{}, time.Now()
}
