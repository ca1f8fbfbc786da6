// Package worker allots bindings. It consumes events, decides each one with the rules, the counters
// and Gardener, publishes its reply, and settles the message. Workers are stateless and equal; any
// number of them share a stream.
//
// The path of a provision that gets an account: consume -> decode -> match rule -> take network
// blocks -> assign in Redis -> write the label and confirm, where the account is newly claimed ->
// publish the reply -> acknowledge. docs/architecture.md has the phases of every event,
// docs/protocol.md says why they have this order.
package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/worker/dispatch"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
	"github.com/hap-worker/hap-worker/worker/serving"
	"github.com/hap-worker/hap-worker/worker/source"
)

// Options configure a worker.
type Options struct {
	Consumer streams.Consumer // durable, shared by all workers
	// Reopen returns the consumer after it was lost, and may create it. All its errors are
	// retried. The default returns Consumer if the server has it.
	Reopen   func(context.Context) (streams.Consumer, error)
	Subjects events.Subjects
	Ledger   Ledger
	Dead     interface {
		// Put stores a copy of the message with the reason. It is idempotent.
		Put(ctx context.Context, l dead.Event, code engine.Code, reason string) error
	}
	Room     Room
	Copies   copier
	Counters Counters
	Gardener Gardener
	Rebuild  account.Rebuilder
	Rules    *terms.Live
	Observer observe.Observer
	// Tracer defaults to one that records nothing.
	Tracer trace.Tracer

	Namespace string // of the bindings
	Kind      string // of the bindings, as replies name it

	// Concurrency is how many events are handled at once, besides those that have left their place to wait for
	// Gardener (leavePlace). Defaults to 288.
	Concurrency int
	// MaxAckPending is the consumer's limit of events that are delivered and not acknowledged. A worker's queue holds
	// up to an eighth of it, but at least 2,048 and at most 8,192 events (fewQueued, mostQueued).
	MaxAckPending int
	// AckWait is the configured AckWait of the consumer: the server redelivers a message after this time without
	// an acknowledgement or progress. The worker reports progress after each third of this time, or of the
	// consumer's AckWait on the server if that is shorter. Defaults to 30 s.
	AckWait time.Duration
	// Budget is how long a handler retries an event after errors that are not futile. After that the event goes
	// back to the stream, or to the waiting room (see postponed). Defaults to 20 s.
	Budget time.Duration
	// ServeEvery is the pause between two rounds of the waiting room without a wake. Each round reads new requests
	// and tries those that are due, for example at their deadline. Defaults to 1 s.
	ServeEvery time.Duration
	// Drain is how long Stop waits for events in flight before it cancels them. Defaults to 25 s.
	Drain time.Duration
	// Policies choose implementations. The default refuses every interface.
	Policies Policies
	// Ranges allots network blocks. Nil allots none.
	Ranges *ranges.Allotter
	// Now defaults to time.Now.
	Now Clock
}

func (o Options) withDefaults() Options {
	if o.Concurrency == 0 {
		o.Concurrency = 288
	}
	if o.AckWait == 0 {
		o.AckWait = 30 * time.Second
	}
	if o.Budget == 0 {
		o.Budget = 20 * time.Second
	}
	if o.ServeEvery == 0 {
		o.ServeEvery = time.Second
	}
	if o.Drain == 0 {
		o.Drain = 25 * time.Second
	}
	if o.Policies == nil {
		o.Policies = unconfigured{}
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// errDraining is the cancellation cause of handlers that are still running when the drain ends.
var errDraining = errors.New("the worker stops and the drain is over")

// Worker takes events from the stream, passes them to its Handler and settles them, until Stop.
type Worker struct {
	*Handler
	opts Options

	mu         sync.Mutex
	begun      bool
	stopped    bool
	done       chan struct{}
	cancel     context.CancelCauseFunc
	stopTaking context.CancelFunc
	handlers   sync.WaitGroup
	source     *source.Source
	queue      *dispatch.Queue[source.Message] // events that no handler has begun
	handedBack atomic.Int64                    // events that went back to the stream because the queue was full
	slow       atomic.Int64                    // events in flight that no longer count toward Concurrency, see leavePlace
	places     []atomic.Pointer[inWork]        // one for each possible handler: the event that it handles, or nil
	free       chan int                        // indexes of the places that have no handler
	turns      chan struct{}                   // semaphore for events that an open circuit holds up, see awaitTurn
	faults     faults
	unburied   *unburied
	rounds     *serving.Rounds
}

// New returns a worker. Start starts it.
func New(o Options) *Worker {
	o = o.withDefaults()
	places := o.Concurrency * (1 + slowPlaces)
	w := &Worker{
		Handler: newHandler(&o), opts: o, unburied: newUnburied(o.MaxAckPending),
		done:   make(chan struct{}),
		places: make([]atomic.Pointer[inWork], places), free: make(chan int, places), turns: make(chan struct{}, heldTurns),
		queue: dispatch.New[source.Message](dispatch.Options{
			Events: min(max(fewQueued, o.MaxAckPending/8), mostQueued), Bytes: mostQueuedBytes, Share: share(o.Concurrency), Wait: roomWait,
		}),
	}
	w.source = source.New(source.Options{
		Consumer: o.Consumer, Reopen: o.Reopen, Prefetch: o.Concurrency, Subjects: o.Subjects.Events(), LookEvery: o.AckWait / 3, Observer: w.observer, Now: o.Now, Clock: w.clock,
	})
	w.rounds = serving.New(serving.Options{
		Wakes: w.Wakes, Room: o.Room, Queue: o.Counters, Rebuild: o.Rebuild, Observer: w.observer,
		Answer: w.answerWaiting, Elsewhere: w.elsewhere, Every: o.ServeEvery, Now: w.clock.Now,
	})
	for place := range places {
		w.free <- place
	}
	return w
}

// StreamTime returns the time by the stream's clock. Deadlines are compared with it.
func (w *Worker) StreamTime() time.Time { return w.clock.Now() }

// InFlight returns the number of events that are being handled.
func (w *Worker) InFlight() int {
	n := 0
	for i := range w.places {
		if w.places[i].Load() != nil {
			n++
		}
	}
	return n
}

// Stuck returns an error if an event has been in flight for longer than three times the sum of Options.Budget and
// Options.AckWait, otherwise nil. No event takes as long, unless a worker has a bug.
func (w *Worker) Stuck() error {
	limit := 3 * (w.opts.Budget + w.opts.AckWait)
	for i := range w.places {
		at := w.places[i].Load()
		if at == nil {
			continue
		}
		if took := w.since(at.begun); took > limit {
			return fmt.Errorf("an event has been in work for %s, longer than %s: restart the worker", took.Round(time.Second), limit)
		}
	}
	return nil
}

// Consuming returns nil while the worker takes events, otherwise the reason why it does not.
func (w *Worker) Consuming() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, why := w.source.Lost()
	if why == nil {
		since, why = w.source.Held()
	}
	switch {
	case w.stopped:
		return errors.New("stopping")
	case !w.begun:
		return errors.New("not started yet")
	case why != nil:
		return fmt.Errorf("no events have been taken for %s: %w", w.since(since).Round(time.Second), why)
	default:
		return nil
	}
}

// deafFor is how long a worker may be without its consumer before it fails its liveness probe. It is
// longer than an upgrade needs to recreate a stream, and than NATS needs to elect leaders. A restarted
// worker waits for its stream without failing /healthz, so a missing stream costs one restart only.
const deafFor = 5 * time.Minute

// Deaf returns an error if the worker lost its consumer more than deafFor ago and has not reopened it.
func (w *Worker) Deaf() error {
	since, lost := w.source.Lost()
	if lost == nil || w.since(since) <= deafFor {
		return nil
	}
	return fmt.Errorf("no events have been taken for %s, longer than %s: %w", w.since(since).Round(time.Second), deafFor, lost)
}
