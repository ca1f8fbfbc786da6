package kube

import (
	"regexp"
	"sync"
	"time"
)

// quiet is how long after a failure the same failure is no news. A watch that keeps failing fails about once a
// minute or more often.
const quiet = 5 * time.Minute

// localPort matches the local port in the text of a failure. Each connection has another one.
var localPort = regexp.MustCompile(`:\d+->`)

func withoutPort(err error) string { return localPort.ReplaceAllString(err.Error(), "->") }

// Failures remembers the last failure of a watch. The zero value has none.
type Failures struct {
	mu   sync.Mutex
	last error
	at   time.Time
}

// Add records a failure, and reports whether it is news: its text differs from the last one's by more than the
// local port, or there was no failure for the time quiet.
func (f *Failures) Add(err error, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	again := f.last != nil && withoutPort(f.last) == withoutPort(err) && now.Sub(f.at) < quiet
	f.last, f.at = err, now
	return !again
}

// Last returns the last failure, nil for none.
func (f *Failures) Last() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}
