// Package worker allots bindings: it consumes events, decides them with the
// rules, the counters and Gardener, publishes the one answer of each, and
// settles. Workers are stateless and equal; any number of them share a stream.
//
// The path of an event: consume -> decode -> match rule -> assign in Redis ->
// write the label and confirm, where the binding is new -> publish the reply ->
// acknowledge. docs/protocol.md says why each step is where it is.
package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/dispatch"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
	"github.com/hap-worker/hap-worker/worker/waitlist"
)

// Options are what a worker works with.
type Options struct {
	Consumer jetstream.Consumer // the durable one that all workers share
	// Reopen returns the consumer again after it was lost, and may create it. Its
	// errors are transient. Defaults to Consumer, once the server has it.
	Reopen   func(context.Context) (jetstream.Consumer, error)
	Subjects events.Subjects
	Ledger   Ledger
	Dead     DeadLetterStore
	Room     WaitingRoom
	Copies   Copier
	Counters Counters
	Gardener Gardener
	Rebuild  Rebuilder
	Rules    *config.Live
	Observer observe.Observer
	// Tracer defaults to one that records nothing.
	Tracer trace.Tracer

	Namespace string // of the bindings
	Kind      string // of the bindings, as it stands in replies

	// Concurrency is how many events are handled at once. Defaults to 192.
	Concurrency int
	// SlowAfter is how long an event may be in work before it takes no place any more, while
	// others are queued: it waits for something that fails or hangs. Defaults to never: while
	// Redis is rebuilt every event is slow, and four times as many would try again and again.
	SlowAfter time.Duration
	// AckWait is the consumer's: progress is told after a third of it. Defaults to 30 s.
	AckWait time.Duration
	// Budget is how long a handler tries what fails for now before it gives the
	// event back. Defaults to 20 s.
	Budget time.Duration
	// ServeEvery is how often the waiting room is asked for requests that are new, and
	// how long one that failed, or is over its deadline, waits at most. Defaults to 1 s.
	ServeEvery time.Duration
	// Drain is how long Stop lets begun events go on. Defaults to 25 s.
	Drain time.Duration
	// Policies choose implementations. Defaults to none, which refuses every interface.
	Policies Policies
	// Ranges allots network blocks. Defaults to none at all.
	Ranges *ranges.Allotter
	// Now defaults to time.Now.
	Now Clock
}

func (o Options) withDefaults() Options {
	if o.Concurrency == 0 {
		o.Concurrency = 192
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
	if o.Reopen == nil {
		o.Reopen = func(ctx context.Context) (jetstream.Consumer, error) {
			_, err := o.Consumer.Info(ctx)
			return o.Consumer, err
		}
	}
	return o
}

// errDraining is why handlers end that outlived the drain.
var errDraining = errors.New("the worker stops and the drain is over")

// Worker takes events from the stream, has its Handler answer them, and settles them,
// until it is stopped.
type Worker struct {
	*Handler
	opts Options

	mu         sync.Mutex
	from       *source // of the events: the present one, or the last
	begun      bool
	stopped    bool
	started    chan struct{}
	done       chan struct{}
	cancel     context.CancelCauseFunc
	stopTaking context.CancelFunc
	lost       atomic.Pointer[loss] // nil while events are taken
	lastLoss   time.Time            // of the goroutine that consumes
	handlers   sync.WaitGroup
	queue      *dispatch.Queue[held]    // events that are taken and not begun
	handedBack atomic.Int64             // events that the full queue gave back
	queued     chan struct{}            // something is in the queue
	places     []atomic.Pointer[inWork] // by handler, nil for one that is idle
	free       chan int                 // places without a handler
	quit       chan struct{}            // nobody who waits is served any more
	faults     faults
	reliers    reliers             // of the goroutine that serves
	last       map[string][]string // by pool, runtimes whose requests ended the look at it before; of the goroutine that serves
	seen       waitingRoom
	looked     time.Time // the last Look; of the goroutine that serves
}

// New gives a worker that is not started yet.
func New(o Options) *Worker {
	o = o.withDefaults()
	places := o.Concurrency * (1 + slowPlaces)
	w := &Worker{
		Handler: newHandler(&o), opts: o,
		started: make(chan struct{}), done: make(chan struct{}), quit: make(chan struct{}), last: map[string][]string{},
		seen:   waitingRoom{list: waitlist.New()},
		places: make([]atomic.Pointer[inWork], places), free: make(chan int, places),
		queued: make(chan struct{}, 1), queue: dispatch.New[held](dispatch.Options{Events: mostQueued, Bytes: mostQueuedBytes, Share: share(o.Concurrency)}),
	}
	for place := range places {
		w.free <- place
	}
	return w
}

// Started is closed once events are consumed.
func (w *Worker) Started() <-chan struct{} { return w.started }

// InFlight is the number of events that are being handled.
func (w *Worker) InFlight() int {
	n := 0
	for i := range w.places {
		if w.places[i].Load() != nil {
			n++
		}
	}
	return n
}

// Stuck reports whether an event is in work for much longer than handlers have:
// nil, or how long. Only a fault of ours leads there, and a restart out of it.
func (w *Worker) Stuck() error {
	limit := 3 * (w.opts.Budget + w.opts.AckWait)
	for i := range w.places {
		at := w.places[i].Load()
		if at == nil {
			continue
		}
		if took := w.since(at.begun); took > limit {
			return fmt.Errorf("an event is in work for %s, longer than %s", took.Round(time.Second), limit)
		}
	}
	return nil
}

// Consuming reports whether the worker takes events: nil, or why not.
func (w *Worker) Consuming() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch lost := w.lost.Load(); {
	case w.stopped:
		return errors.New("stopping")
	case w.from == nil:
		return errors.New("not started yet")
	case lost != nil:
		return fmt.Errorf("no events are taken for %s: %w", w.since(lost.since).Round(time.Second), lost.why)
	default:
		return nil
	}
}

// deafFor is how long a worker may take no events before it says that it is not
// alive. It is longer than an upgrade needs to recreate a stream, and than NATS
// needs to elect leaders. A worker that is restarted waits for its stream without
// failing /healthz, so a stream that stays away costs one restart.
const deafFor = 5 * time.Minute

// Deaf reports whether the worker has lost its consumer for much longer than it
// takes to open it again: nil, or why.
func (w *Worker) Deaf() error {
	lost := w.lost.Load()
	if lost == nil || w.since(lost.since) <= deafFor {
		return nil
	}
	return fmt.Errorf("no events are taken for %s, longer than %s: %w", w.since(lost.since).Round(time.Second), deafFor, lost.why)
}
