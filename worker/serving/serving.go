// Package serving serves the waiting requests. It follows the waiting room, collects wakes, and decides
// which request is tried next and when. Options.Answer tries to answer a request.
package serving

import (
	"context"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/waitlist"
)

// Room is where requests wait: package storage. The errors are the connection's.
type Room interface {
	// Get reads one request, and reports whether it still waits.
	Get(ctx context.Context, subject string) (r storage.WaitingRequest, found bool, err error)
	// After visits the requests that were stored after a sequence of the room, oldest first, and
	// returns the sequence up to which it has read.
	After(ctx context.Context, sequence uint64, visit func(storage.WaitingRequest) error) (read uint64, err error)
	// State returns the number of messages in the room, and the last sequence that it assigned.
	State(ctx context.Context) (messages, last uint64, err error)
	// Subjects returns the number of messages by subject.
	Subjects(ctx context.Context) (map[string]uint64, error)
}

// Queue returns the order of the waiting runtimes: package counters. Every method may return
// account.ErrNotBuilt or the connection's error.
type Queue interface {
	// Queue returns the runtimes that wait for a pool, in the order in which they are served.
	Queue(ctx context.Context, pool string) ([]account.Waiter, error)
	// Heads returns, for up to most tenants, the runtime of each that has waited longest, in the order in which they
	// are served, and the number of all waiting runtimes.
	Heads(ctx context.Context, pool string, most int) (account.Heads, error)
}

// Turn is one attempt at a waiting request.
type Turn struct {
	Request storage.WaitingRequest
	// Next permits the request to claim an account although others wait: it is its tenant's next one in the queue of
	// the pool, and no request before it has ended this round's claims there.
	Next bool
	// Lasting reports whether this worker has seen the network blocks of the named attempt for longer than Budget:
	// then the attempt has probably stopped without returning them.
	Lasting func(relier string) bool
}

// Fault classifies the error of an attempt by its effect on the other requests.
type Fault int

// The faults.
const (
	None       Fault = iota
	Rebuilding       // the pool, the directory or the network ranges have to be rebuilt: the pool's requests cannot be served
	Slow             // the attempt timed out, or Gardener is unavailable for the pool
	OwnDoing         // the request itself causes the error; the others are not affected
	Other            // if several in a row end like this, all requests are probably affected
)

// Result is the result of an attempt at a waiting request.
type Result struct {
	Done  bool      // the request no longer waits for this pool
	Apart bool      // the request still waits, for a reason that the others do not share
	Full  bool      // the request still waits, for network blocks
	Lacks string    // the injection of a network rule that has no room, which others may lack too; "" if it is unknown
	Left  []string  // attempts, perhaps this one too, whose network blocks are still to be returned; also set after an error
	Again time.Time // when to try the request again without a wake; zero for no such time
	Fault Fault     // None without an error
}

// Options configure rounds.
type Options struct {
	Wakes    *Wakes
	Room     Room
	Queue    Queue
	Rebuild  account.Rebuilder
	Observer *observe.Observer
	// Answer tries to answer a waiting request. It should not take much longer than Budget.
	Answer func(context.Context, Turn) (Result, error)
	// Elsewhere reports whether the rules now lead a request to another pool, or to none. It is called for new
	// requests that wait for an account, and for all of these after Wake. The default returns false.
	Elsewhere func(storage.WaitingRequest) bool
	// Every is the pause between two rounds without a wake; each round reads the room for new requests. It also
	// bounds the pause before a failed request is due again.
	Every time.Duration
	Now   func() time.Time
}

// Budget is the time-out of one attempt at a waiting request: the others wait meanwhile.
const Budget = 3 * time.Second

// Rounds serves the waiting requests. Every worker does so, without a leader: if two serve the same request,
// only one final reply is stored. Only the goroutine that serves uses the fields, except quit and stop.
type Rounds struct {
	Options

	reliers reliers
	last    map[string][]string  // by pool, or for blocks, the runtimes whose failures ended its previous round
	failed  map[string]time.Time // by pool, the last report of tellFailed
	seen    waitingRoom
	looked  time.Time // time of the last look
	quit    chan struct{}
	stop    func()
}

// New returns rounds. Run or Serve starts them.
func New(o Options) *Rounds {
	if o.Elsewhere == nil {
		o.Elsewhere = func(storage.WaitingRequest) bool { return false }
	}
	quit := make(chan struct{})
	return &Rounds{
		Options: o, last: map[string][]string{}, failed: map[string]time.Time{}, seen: waitingRoom{list: waitlist.New()},
		quit: quit, stop: sync.OnceFunc(func() { close(quit) }),
	}
}

// Run runs a round after each wake and each Options.Every, until Stop. If ctx ends, Run ends during the
// current round.
func (s *Rounds) Run(ctx context.Context) {
	loop.Run(ctx, loop.Options{
		Every: s.Every, Wake: s.Wakes.signal, Stop: s.quit,
		Failed: func(err error, after time.Duration) {
			s.Observer.Retry(ctx, observe.Retry{Type: "waiting", After: after, Err: err})
		},
	}, s.Round)
}

// Stop ends Run after the current request. It does not wait for that.
func (s *Rounds) Stop() { s.stop() }

// Serve runs rounds until nothing is woken any more, or until one fails. It is for callers without Run.
func (s *Rounds) Serve(ctx context.Context) error {
	for s.Wakes.Pending() {
		if err := s.Round(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mostFailures is the number of failures in a row that end a part of a round. Then it is likely that a dependency of all
// requests fails, and not each single request.
const mostFailures = 3

// failures are the errors of requests in one part of a round.
type failures struct {
	first error
	row   []string // runtimes whose requests failed, since the last success
}

// after records the result of a request, and reports whether to stop: mostFailures have failed in a row.
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
