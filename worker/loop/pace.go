package loop

import (
	"sync"
	"time"
)

// Pace has work that grows with the landscape done less often once a turn takes long, so that it takes no more than a
// third of a percent of the time. The first turn is due. It is safe for concurrent use.
type Pace struct {
	Most time.Duration // the longest rest

	mu   sync.Mutex
	next time.Time
}

// rests is how many times as long as a turn the rest after it is.
const rests = 300

// Due reports whether the rest is over.
func (p *Pace) Due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !time.Now().Before(p.next)
}

// Rest begins the rest after a turn that began then.
func (p *Pace) Rest(begin time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.next = now.Add(min(rests*now.Sub(begin), p.Most))
}
