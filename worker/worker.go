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
	"github.com/hap-worker/hap-worker/worker/serving"
	"github.com/hap-worker/hap-worker/worker/source"
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
	Room     Room
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
	// MaxAckPending is the consumer's: a worker queues an eighth of that, 2,048 to 8,192
	// events, which it has taken and not begun.
	MaxAckPending int
	// AckWait is the consumer's, as configured. Progress is told after a third of it, or of the
	// one that the server has, if that is shorter. Defaults to 30 s.
	AckWait time.Duration
	// Budget is how long a handler tries what fails for now before it returns the
	// event. Defaults to 20 s.
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
	begun      bool
	stopped    bool
	done       chan struct{}
	cancel     context.CancelCauseFunc
	stopTaking context.CancelFunc
	handlers   sync.WaitGroup
	source     *source.Source
	queue      *dispatch.Queue[source.Message] // events that are taken and not begun
	handedBack atomic.Int64                    // events that the full queue gave back
	slow       atomic.Int64                    // events that have left their place
	places     []atomic.Pointer[inWork]        // by handler, nil for one that is idle
	free       chan int                        // places without a handler
	turns      chan struct{}                   // taken by events that are held up and being answered
	faults     faults
	unburied   *unburied
	rounds     *serving.Rounds
}

// New returns a worker that is not started yet.
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

// StreamTime returns the time by the clock of the stream, by which deadlines are judged.
func (w *Worker) StreamTime() time.Time { return w.clock.Now() }

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
		return fmt.Errorf("no events are taken for %s: %w", w.since(since).Round(time.Second), why)
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
	since, lost := w.source.Lost()
	if lost == nil || w.since(since) <= deafFor {
		return nil
	}
	return fmt.Errorf("no events are taken for %s, longer than %s: %w", w.since(since).Round(time.Second), deafFor, lost)
}
