package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/crash"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Start starts the worker and returns. It fails if the consumer cannot be opened, and may be called again
// then. Handlers get the values of ctx, but not its cancellation: only Stop ends the worker. Once the worker
// is started or stopped, Start does nothing.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun || w.stopped {
		return nil
	}
	if err := w.source.Open(); err != nil {
		return err
	}
	w.source.Look(ctx) // measures the stream's clock, which deadlines need
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	taking, stopTaking := context.WithCancel(work)
	w.begun, w.cancel, w.stopTaking = true, cancel, stopTaking
	w.handlers.Go(func() { w.rounds.Run(work) })
	w.handlers.Go(func() { w.source.Watch(taking) })
	go w.tellProgress(context.WithoutCancel(ctx))
	for range w.opts.Concurrency {
		w.beginHandler(work, <-w.free)
	}
	go w.consume(taking)
	return nil
}

// Stop takes no more events and returns the queued ones to the stream. It waits for the events in flight,
// and cancels those that take longer than Options.Drain. It may be called before Start and more than once.
func (w *Worker) Stop() {
	w.mu.Lock()
	first := !w.stopped
	w.stopped = true
	begun, cancel := w.begun, w.cancel
	w.mu.Unlock()
	if !begun {
		return
	}
	if first {
		w.stopTaking()
		w.source.Drain()
		late := time.AfterFunc(w.opts.Drain, func() { cancel(errDraining) })
		defer late.Stop()
	}
	<-w.done
}

// consume queues events for the handlers until Stop.
func (w *Worker) consume(ctx context.Context) {
	defer close(w.done)
	defer w.cancel(nil)
	defer w.handlers.Wait()
	defer w.rounds.Stop()
	defer w.handBackQueue()
	for {
		msg, ok := w.source.Next(ctx)
		if !ok {
			return
		}
		w.enqueue(ctx, msg)
	}
}

// tellProgress prevents the redelivery of messages that are in flight or queued, until the worker has
// stopped.
func (w *Worker) tellProgress(ctx context.Context) {
	every := func() time.Duration { return min(w.opts.AckWait, w.source.AckWait()) / 3 }
	loop.Run(ctx, loop.Options{Changing: every, Stop: w.done}, func(context.Context) error {
		for i := range w.places {
			if at := w.places[i].Load(); at != nil {
				_ = at.msg.InProgress()
			}
		}
		for _, msg := range w.queue.Before(w.now().Add(-every() / 2)) {
			_ = msg.InProgress()
		}
		return nil
	})
}

// delivery is an event as this worker received it, from the stream or from the waiting room. It is
// immutable.
type delivery struct {
	event     events.Event
	invalid   error     // why the event can never be processed; nil for a valid one
	subject   string    // of the reply; "" if the event was too unreadable to tell
	number    uint64    // of the delivery, from 1; 0 in supersede
	sequence  uint64    // in the stream of events; 0 for a request from the waiting room
	published time.Time // when the stream stored it; zero for a request from the waiting room

	served bool // the event is a request that is served from the waiting room
	inTurn bool // the request is the next of its queue, so it may claim although others wait
}

// decode decodes a message. If it is no valid event, delivery.invalid says why.
func (h *Handler) decode(msg jetstream.Msg) delivery {
	d := delivery{number: 1}
	if meta, err := msg.Metadata(); err == nil {
		d.number, d.sequence, d.published = meta.NumDelivered, meta.Sequence.Stream, meta.Timestamp
	}
	err := crash.Guard(func() error {
		d.event, d.invalid = events.Decode(msg.Subject(), msg.Headers(), msg.Data())
		return nil
	})
	if err != nil {
		h.observer.Retry(context.Background(), observe.Retry{Type: "decode", Err: err})
		d.event, d.invalid = events.Event{}, errors.New(shortly(err)) // the same bytes would panic again
	}
	d.subject = d.event.ReplySubject(h.subjects)
	return d
}

func (d *delivery) kind() string { return cmp.Or(string(d.event.Type), "unknown") }

// tenant returns the global account that a provision or deprovision names, or "".
func (d *delivery) tenant() string {
	if d.event.Resolve != nil {
		return ""
	}
	return d.event.Tenant()
}

// told returns the event and its outcome as the observer gets them.
func (d *delivery) told(subject string, out outcome) observe.Event {
	return observe.Event{
		Type: d.kind(), ID: d.event.ID, Tenant: d.tenant(), Runtime: d.event.RuntimeID, Subject: subject, Delivery: d.number,
		Binding: out.binding, Status: string(out.status), Code: out.code, Reason: out.reason, Outcome: out.verdict,
	}
}
