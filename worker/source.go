package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// source is an iterator over the events of the shared consumer, until that is gone.
type source struct {
	consumer  jetstream.Consumer
	messages  jetstream.MessagesContext
	opened    time.Time
	created   time.Time   // of the consumer that it was opened on
	delivered atomic.Bool // at least one event

	gone  atomic.Bool // what it delivered cannot be settled any more
	cause atomic.Pointer[error]
}

// open opens an iterator on the consumer.
func (w *Worker) open(consumer jetstream.Consumer) (*source, error) {
	// What is prefetched waits with its AckWait running, so no more than can be begun.
	messages, err := consumer.Messages(jetstream.PullMaxMessages(w.opts.Concurrency))
	if err != nil {
		return nil, fmt.Errorf("consume events: %w", err)
	}
	return &source{consumer: consumer, messages: messages, opened: w.now(), created: consumer.CachedInfo().Created}, nil
}

// ended reports whether an iterator that returned err returns nothing more. All other
// errors are those of a moment.
func ended(err error) bool {
	return errors.Is(err, jetstream.ErrMsgIteratorClosed) || errors.Is(err, jetstream.ErrConsumerDeleted) ||
		errors.Is(err, jetstream.ErrBadRequest)
}

// end makes the iterator end.
func (s *source) end(why error) {
	s.cause.Store(&why)
	s.messages.Stop()
}

// why is what the iterator ended for, where that is known better than err says.
func (s *source) why(err error) error {
	if cause := s.cause.Load(); cause != nil {
		return *cause
	}
	return err
}

// loss is a consumer that is gone.
type loss struct {
	since time.Time
	why   error
}

// proven is how long an iterator that delivers nothing has to last before its loss
// is a new one: the pauses go on where one ends as soon as it is opened.
const proven = 10 * time.Second

func reopenPauses() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(250*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
}

// reopen opens the consumer again after old has ended, and tries until that succeeds;
// nil once the worker is stopped. What old delivered is not settled any more: where the
// stream was recreated, its sequences begin anew, and an acknowledgement would be that
// of another event. The event itself is delivered again if its stream still has it.
func (w *Worker) reopen(ctx context.Context, old *source, pause *backoff.ExponentialBackOff, why error) *source {
	old.gone.Store(true)
	if w.lastLoss.IsZero() || old.delivered.Load() || w.since(old.opened) > proven {
		pause.Reset()
		w.lastLoss = w.now()
	}
	for {
		w.lost.Store(&loss{since: w.lastLoss, why: why})
		after := pause.NextBackOff()
		w.observer.Retry(ctx, observe.Retry{Type: "consume", After: after, Err: why})
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(after):
		}
		from, err := w.opened(ctx)
		if from != nil || ctx.Err() != nil {
			return from
		}
		why = err
	}
}

// opened is one attempt to open the consumer. It returns nothing once the worker is
// stopped.
func (w *Worker) opened(ctx context.Context) (*source, error) {
	consumer, err := w.opts.Reopen(ctx)
	if err != nil {
		return nil, err
	}
	from, err := w.open(consumer)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped { // which has drained the one before
		from.messages.Stop()
		return nil, errors.New("stopping")
	}
	w.from = from
	w.lost.Store(nil)
	return from, nil
}

// watchConsumer ends an iterator whose consumer is gone, or is another one of its name,
// until ctx ends. The server tells only those that are connected and have asked for
// events when a consumer is deleted.
func (w *Worker) watchConsumer(ctx context.Context) {
	every := w.opts.AckWait / 3
	loop.Run(ctx, loop.Options{Every: every}, func(ctx context.Context) error {
		w.mu.Lock()
		from := w.from
		w.mu.Unlock()
		if from.gone.Load() {
			return nil
		}
		if err := from.look(ctx, every); err != nil {
			from.end(err)
		}
		return nil
	})
}

// look returns why the consumer is not the one that was opened. That the server does
// not answer is no reason.
func (s *source) look(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	info, err := s.consumer.Info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return err
	case err == nil && !info.Created.Equal(s.created):
		return errors.New("the consumer was recreated")
	default:
		return nil
	}
}
