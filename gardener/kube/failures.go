package kube

import (
	"sync"
	"time"
)

// quiet is how long a watch must not fail before a repeat of its last failure is news. A watch that keeps
// failing fails at least once a minute.
const quiet = 5 * time.Minute

// Failures remembers the last failure of a watch. The zero value has none.
type Failures struct {
	mu   sync.Mutex
	last error
	at   time.Time
}

// Add records a failure, and reports whether it is news: its text differs from the last one's, or there was
// no failure for the time quiet.
func (f *Failures) Add(err error, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	again := f.last != nil && f.last.Error() == err.Error() && now.Sub(f.at) < quiet
	f.last, f.at = err, now
	return !again
}

// Last returns the last failure, nil for none.
func (f *Failures) Last() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}
