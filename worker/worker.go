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
)

// Options are what a worker works with.
type Options struct {
	Consumer jetstream.Consumer // the durable one that all workers share
	Subjects events.Subjects
	Ledger   Ledger
	Dead     Morgue
	Room     Room
	Copies   Copier
	Counters Counters
	Gardener Landscape
	Rebuild  Rebuilder
	Rules    *config.Live
	Listener Listener
	// Tracer defaults to one that records nothing.
	Tracer trace.Tracer

	Namespace string // of the bindings
	Kind      string // of the bindings, as it stands in replies

	// Concurrency is how many events are handled at once. Defaults to 192.
	Concurrency int
	// AckWait is the consumer's: progress is told after a third of it. Defaults to 30 s.
	AckWait time.Duration
	// Budget is how long a handler tries what fails for now before it gives the
	// event back. Defaults to 20 s.
	Budget time.Duration
	// ServeEvery is how long a request waits at most before it is looked at again
	// without being woken. Defaults to 1 s.
	ServeEvery time.Duration
	// Drain is how long Stop lets begun events go on. Defaults to 25 s.
	Drain time.Duration
	// Policies choose implementations. Defaults to none, which refuses every interface.
	Policies Policies
	// Ranges allot network blocks as Networks say. Defaults to none at all.
	Ranges   Ranges
	Networks Networks // set with Ranges
	Extend   Extender // set with Ranges
	// Notes are told whose blocks change. Defaults to nothing that is told.
	Notes interface{ Changed(runtime string) }
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

// Worker handles events until it is stopped.
type Worker struct {
	opts      Options
	counters  Counters
	gardener  Landscape
	rules     *config.Live
	epochs    epochs
	listener  *Listener
	namespace string
	kind      string
	now       Clock

	mu       sync.Mutex
	messages jetstream.MessagesContext
	begun    bool
	stopped  bool
	started  chan struct{}
	done     chan struct{}
	cancel   context.CancelCauseFunc
	handlers sync.WaitGroup
	inWork   []atomic.Pointer[inWork] // by the place of its handler, nil for one that is idle
	wake     chan struct{}            // somebody who waits may be served now
	quit     chan struct{}            // nobody who waits is served any more
}

// New gives a worker that is not started yet.
func New(o Options) *Worker {
	o = o.withDefaults()
	w := &Worker{
		opts: o, counters: o.Counters, gardener: o.Gardener, rules: o.Rules, listener: &o.Listener,
		namespace: o.Namespace, kind: o.Kind, now: o.Now,
		started: make(chan struct{}), done: make(chan struct{}), inWork: make([]atomic.Pointer[inWork], o.Concurrency),
		wake: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	return w
}

// Started is closed once events are consumed.
func (w *Worker) Started() <-chan struct{} { return w.started }

// InFlight is the number of events that are being handled.
func (w *Worker) InFlight() int {
	n := 0
	for i := range w.inWork {
		if w.inWork[i].Load() != nil {
			n++
		}
	}
	return n
}

// Stuck reports whether an event is in work for much longer than handlers have:
// nil, or how long. Only a fault of ours leads there, and a restart out of it.
func (w *Worker) Stuck() error {
	limit := 3 * (w.opts.Budget + w.opts.AckWait)
	for i := range w.inWork {
		at := w.inWork[i].Load()
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
	switch {
	case w.stopped:
		return errors.New("stopping")
	case w.messages == nil:
		return errors.New("not started yet")
	default:
		return nil
	}
}
