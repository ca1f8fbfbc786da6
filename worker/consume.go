package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Start begins to consume, and returns. The values of ctx reach every handler;
// its end does not: Stop ends the worker. A second Start, or one after Stop,
// does nothing.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun || w.stopped {
		return nil
	}
	// What is prefetched waits with its AckWait running, so no more than can be begun.
	messages, err := w.opts.Consumer.Messages(jetstream.PullMaxMessages(w.opts.Concurrency))
	if err != nil {
		return fmt.Errorf("consume events: %w", err)
	}
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	w.begun, w.messages, w.cancel = true, messages, cancel
	w.handlers.Go(func() { w.serveWaiting(work) })
	go w.tellProgress()
	begin := make(chan jetstream.Msg)
	for place := range w.inWork {
		w.handlers.Go(func() { w.handleAll(work, place, begin) })
	}
	go w.consume(work, messages, begin)
	close(w.started)
	return nil
}

// Stop takes no more events, hands back those that are not begun, waits for the
// begun ones as long as the drain allows, and ends what is left then. It may be
// called before Start and more than once.
func (w *Worker) Stop() {
	w.mu.Lock()
	first := !w.stopped
	w.stopped = true
	messages, cancel := w.messages, w.cancel
	w.mu.Unlock()
	if messages == nil {
		return
	}
	if first {
		messages.Drain()
		late := time.AfterFunc(w.opts.Drain, func() { cancel(errDraining) })
		defer late.Stop()
	}
	<-w.done
}

func (w *Worker) consume(ctx context.Context, messages jetstream.MessagesContext, begin chan<- jetstream.Msg) {
	defer close(w.done)
	defer w.cancel(nil)
	defer w.handlers.Wait()
	defer w.stopServing()
	defer close(begin)
	for {
		msg, err := messages.Next()
		switch {
		case errors.Is(err, jetstream.ErrMsgIteratorClosed):
			return
		case err != nil:
			// The iterator goes on by itself after a lost connection or a missed heartbeat.
			w.listener.retry(ctx, RetryInfo{Type: "consume", Err: err})
			continue
		case w.Consuming() != nil:
			_ = msg.Nak() // not begun: another worker can have it at once
			continue
		}
		begin <- msg
	}
}

// inWork is an event in the hands of a handler.
type inWork struct {
	msg   jetstream.Msg
	begun time.Time
}

// handleAll handles one event after the other, as the handler of that place.
func (w *Worker) handleAll(ctx context.Context, place int, begin <-chan jetstream.Msg) {
	for msg := range begin {
		w.inWork[place].Store(&inWork{msg: msg, begun: w.now()})
		w.work(ctx, msg)
		w.inWork[place].Store(nil)
	}
}

// work handles one message from its receipt until it is settled.
func (w *Worker) work(ctx context.Context, msg jetstream.Msg) {
	begin := w.now()
	d := w.deliver(msg)
	ctx, end := w.eventSpan(ctx, &d)
	defer end()
	out := w.handle(ctx, &d)
	info := EventInfo{
		Type: d.kind(), ID: d.event.ID, Tenant: d.tenant(), Runtime: d.event.RuntimeID, Subject: msg.Subject(), Delivery: d.delivery, Binding: out.binding,
		Status: string(out.status), Code: out.code, Reason: out.reason, Outcome: string(out.verdict),
	}
	if err := w.settle(ctx, d, out); err != nil {
		info.Outcome, info.Reason = OutcomeUnsettled, err.Error()
	}
	info.Duration = w.since(begin)
	settledAs(ctx, &info)
	w.listener.event(ctx, info)
}

// tellProgress keeps messages from being delivered again while they are handled, until
// the worker has stopped.
func (w *Worker) tellProgress() {
	tick := time.NewTicker(w.opts.AckWait / 3)
	defer tick.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-tick.C:
		}
		for i := range w.inWork {
			if at := w.inWork[i].Load(); at != nil {
				_ = at.msg.InProgress()
			}
		}
	}
}
