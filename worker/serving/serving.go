// Package serving serves the requests that wait. It follows the waiting room, collects what
// was woken, and says which request is tried next and when. It decides no request itself:
// Options.Answer tries to answer one.
package serving

import (
	"context"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/waitlist"
)

// Requests reads the requests that wait: package events. The errors are the connection's.
type Requests interface {
	// Get reads one request, and reports whether it still waits.
	Get(ctx context.Context, subject string) (r events.WaitingRequest, found bool, err error)
	// After visits the requests that were stored after a sequence of the room, oldest first,
	// and returns up to where it has read.
	After(ctx context.Context, sequence uint64, visit func(events.WaitingRequest) error) (read uint64, err error)
}

// Inventory says what the waiting room has, without reading it.
type Inventory interface {
	// State returns how many messages the room has, and its highest sequence ever.
	State(ctx context.Context) (messages, last uint64, err error)
	// Subjects returns the subjects of all messages.
	Subjects(ctx context.Context) (map[string]uint64, error)
}

// Room is where requests wait: package events.
type Room interface {
	Requests
	Inventory
}

// Queue says who is next: package counters. Every method may return account.ErrNotBuilt or
// the connection's error.
type Queue interface {
	// Queue returns the runtimes that wait for a pool, in the order in which they are
	// to be served.
	Queue(ctx context.Context, pool string) ([]account.Waiter, error)
	// Heads returns of each of at most so many tenants the runtime that waits longest, in the
	// order in which they are to be served, and how many wait.
	Heads(ctx context.Context, pool string, most int) (account.Heads, error)
}

// Rebuilder builds again what Redis has lost.
type Rebuilder interface {
	// Wanted asks for a rebuild of what is not built, pool among it; it does not wait.
	Wanted(pool string)
}

// Turn is one attempt at a request that waits.
type Turn struct {
	Request events.WaitingRequest
	// Next is true for the next request of its queue. Only such a request may claim an account.
	Next bool
	// Lasting reports whether a handling was met for longer than a handling lasts.
	Lasting func(relier string) bool
}

// Fault says what the error of an attempt means for the other requests.
type Fault int

// The faults.
const (
	None       Fault = iota
	Rebuilding       // the pool as a whole cannot serve
	Slow             // the request took all of its time, or Gardener takes no claims for the pool
	OwnDoing         // the others are not to blame
	Other            // where several end so in a row, all may
)

// Result says what became of a request that was tried.
type Result struct {
	Done  bool      // it waits no more
	Apart bool      // it waits on for a reason that the others do not share
	Full  bool      // it lacks network blocks
	Left  []string  // other handlings that rely on network blocks for it, also where the attempt failed
	Again time.Time // when to try it anew though nothing woke it; zero if only then
	Fault Fault     // None without an error
}

// Options are what rounds work with.
type Options struct {
	Wakes    *Wakes
	Room     Room
	Queue    Queue
	Rebuild  Rebuilder
	Observer *observe.Observer
	// Answer tries to answer a request that waits, and takes about Budget at most.
	Answer func(context.Context, Turn) (Result, error)
	// Elsewhere reports whether the rules lead a request to another pool by now, or to none. It is asked about each one
	// after Wake. Defaults to no.
	Elsewhere func(events.WaitingRequest) bool
	// Every is how often the room is asked for requests that are new, and the longest
	// pause before a request is tried again that failed.
	Every time.Duration
	Now   func() time.Time
}

// Budget bounds the time that one waiting request may take of the others.
const Budget = 3 * time.Second

// Rounds serves the requests that wait. Every worker does: there is no leader, and a request
// that is served twice is answered once. Its fields are of the goroutine that serves.
type Rounds struct {
	Options

	reliers reliers
	last    map[string][]string  // by pool, runtimes whose requests ended the look at it before
	failed  map[string]time.Time // by pool, when the observer was told that it was left
	seen    waitingRoom
	looked  time.Time // the last Look
	quit    chan struct{}
	stop    func()
}

// New returns rounds that are not begun.
func New(o Options) *Rounds {
	if o.Elsewhere == nil {
		o.Elsewhere = func(events.WaitingRequest) bool { return false }
	}
	quit := make(chan struct{})
	return &Rounds{
		Options: o, last: map[string][]string{}, failed: map[string]time.Time{}, seen: waitingRoom{list: waitlist.New()},
		quit: quit, stop: sync.OnceFunc(func() { close(quit) }),
	}
}

// Run serves whenever something was woken and every now and then, until Stop. The end of
// ctx ends it within a round.
func (s *Rounds) Run(ctx context.Context) {
	loop.Run(ctx, loop.Options{
		Every: s.Every, Wake: s.Wakes.signal, Stop: s.quit,
		Failed: func(err error, after time.Duration) {
			s.Observer.Retry(ctx, observe.Retry{Type: "waiting", After: after, Err: err})
		},
	}, s.Round)
}

// Stop has no further request served. It does not wait for one that is.
func (s *Rounds) Stop() { s.stop() }

// Serve serves where something was woken since the last round. It is for callers without Run.
func (s *Rounds) Serve(ctx context.Context) error {
	for s.Wakes.Pending() {
		if err := s.Round(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mostFailures is how many failures in a row end a round: then it is more likely that
// what all requests need fails than that each of these does.
const mostFailures = 3

// failures are those of a round, or of a pool in it: one that lasts does not hold up the
// others.
type failures struct {
	first error
	row   []string // what failed last, one after the other: pools, or the requests' subjects
}

// after reports whether it is better to stop after what something ended with.
func (f *failures) after(of string, err error) bool {
	if err == nil {
		f.row = nil
		return false
	}
	if f.first == nil {
		f.first = err
	}
	f.row = append(f.row, of)
	return len(f.row) == mostFailures
}
