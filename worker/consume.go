package worker

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/worker/crash"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Start starts the worker and returns. Handlers get the values of ctx, but not its cancellation: only
// Stop ends the worker. A second Start, or one after Stop, does nothing.
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

// Stop takes no more events and returns the queued ones to the stream. It waits for events in flight
// until the drain ends, then cancels the rest. It may be called before Start and more than once.
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

// Handle handles and settles one message, and reports the outcome to Options.Observer. A started
// worker calls it for each message; it also works without Start.
func (w *Worker) Handle(ctx context.Context, msg jetstream.Msg) {
	begin := w.now()
	a := w.begin(w.decode(msg))
	ctx, end := w.eventSpan(ctx, &a.delivery, msg.Subject())
	defer end()
	out := w.guarded(ctx, a)
	err := crash.Guard(func() error { return w.settle(ctx, msg, &a.delivery, &out) })
	info := a.told(msg.Subject(), out)
	if err != nil {
		info.Outcome, info.Reason = observe.Unsettled, err.Error()
	}
	if a.again {
		info.Delivery = max(info.Delivery, 2) // a reply may be stored already, as at a redelivery
	}
	info.Duration = w.since(begin)
	settledAs(ctx, &info)
	w.observer.Event(ctx, info)
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
