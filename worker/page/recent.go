package page

import (
	"context"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/worker/observe"
)

// keepEvents is how many of this worker's events are remembered.
const keepEvents = 100

// Recent remembers the last events of this worker. OnEvent is a callback for observe.Observer: a reader holds it up
// only while it copies the events.
type Recent struct {
	now func() time.Time

	mu   sync.Mutex
	ring [keepEvents]done
	next int // where the next event goes
}

// done is an event whose handling by this worker has ended.
type done struct {
	At time.Time
	observe.Event
}

// NewRecent returns an empty Recent.
func NewRecent() *Recent { return &Recent{now: time.Now} }

// OnEvent adds an event whose handling has ended.
func (r *Recent) OnEvent(_ context.Context, i observe.Event) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.next] = done{At: now, Event: i}
	r.next = (r.next + 1) % keepEvents
}

// events returns at most n of the last events, newest first.
func (r *Recent) events(n int) []done {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []done
	for i := 1; i <= keepEvents && len(out) < n; i++ {
		e := r.ring[(r.next-i+keepEvents)%keepEvents]
		if e.At.IsZero() {
			break
		}
		out = append(out, e)
	}
	return out
}
