// Package source takes messages from the consumer that all workers share, and reopens the consumer if it is
// lost.
package source

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/worker/clock"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Options configure a source.
type Options struct {
	Consumer streams.Consumer
	// Reopen returns the consumer after it was lost, and may create it. All its errors are
	// retried. Defaults to a check that the server has Consumer.
	Reopen func(context.Context) (streams.Consumer, error)
	// Prefetch is the number of messages that are requested at once. It should not exceed the number
	// of handlers, since the AckWait of a prefetched message is running.
	Prefetch int
	// Subjects are the subjects that the consumer must deliver.
	Subjects []string
	// LookEvery is how often Watch asks the server for the consumer, and the time-out of each look.
	LookEvery time.Duration
	Observer  *observe.Observer
	Now       func() time.Time
	// Clock, unless nil, measures the clock of NATS at each look that finds the consumer.
	Clock *clock.Clock
}

// Source takes messages from a consumer. Call Open first, and Next from one goroutine only.
type Source struct {
	Options

	mu      sync.Mutex
	from    *iterator // the current or last one
	drained bool

	doubt      chan struct{}        // begins a look before its time
	ackWait    atomic.Int64         // of the consumer, in nanoseconds
	held       atomic.Pointer[loss] // nil while the server delivers
	unanswered int                  // looks in a row without an answer; only the goroutine that looks uses it

	lost     atomic.Pointer[loss]        // nil while the consumer is open
	lastLoss time.Time                   // when the last loss began (see proven); only the goroutine that calls Next uses it
	pause    *backoff.ExponentialBackOff // between attempts to reopen the consumer; only the goroutine that calls Next uses it
}

// loss records since when and why the consumer does not deliver.
type loss struct {
	since time.Time
	why   error
}

// New returns a source. Open opens it.
func New(o Options) *Source {
	if o.Reopen == nil {
		o.Reopen = func(ctx context.Context) (streams.Consumer, error) {
			_, err := o.Consumer.Info(ctx)
			return o.Consumer, err
		}
	}
	return &Source{Options: o, doubt: make(chan struct{}, 1), pause: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(250*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))}
}

// Open opens the consumer for the first time. It may be called again after an error.
func (s *Source) Open() error {
	from, err := s.open(s.Consumer)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from = from
	return nil
}

// Next blocks until there is a message and returns it. If the consumer is lost, Next reopens it. Next
// returns false once ctx has ended and the source is drained; it naks messages that are delivered in
// between.
func (s *Source) Next(ctx context.Context) (Message, bool) {
	for from := s.present(); from != nil; {
		msg, err := from.messages.Next()
		switch {
		case err == nil && ctx.Err() == nil:
			from.delivered = true
			facts, err := msg.Metadata()
			return Message{Msg: msg, from: from, facts: facts, unread: err}, true
		case err == nil:
			_ = msg.Nak() // for immediate redelivery to another worker
		case !ended(err):
			// The iterator goes on by itself after a missed heartbeat or a refused request. But if the consumer was
			// deleted before the request arrived, the server does not say so: Watch looks at once.
			select {
			case s.doubt <- struct{}{}:
			default:
			}
			s.Observer.Retry(ctx, observe.Retry{Type: "consume", Err: err})
		case ctx.Err() != nil:
			return Message{}, false
		default:
			from = s.reopen(ctx, from, from.why(err))
		}
	}
	return Message{}, false
}

// Drain requests no more messages. Messages that were requested before may still arrive.
func (s *Source) Drain() {
	s.mu.Lock()
	s.drained = true
	from := s.from
	s.mu.Unlock()
	from.messages.Drain()
}

// Lost returns since when the consumer is gone, and why. While it is open, why is nil.
func (s *Source) Lost() (since time.Time, why error) {
	if lost := s.lost.Load(); lost != nil {
		return lost.since, lost.why
	}
	return time.Time{}, nil
}

// Held returns when Look first found that the consumer does not deliver, and why: it is paused or has no leader, its
// configuration is unusable, or NATS does not answer. If it delivers, why is nil.
func (s *Source) Held() (since time.Time, why error) {
	if held := s.held.Load(); held != nil {
		return held.since, held.why
	}
	return time.Time{}, nil
}

// AckWait returns the consumer's AckWait on the server, as of when the consumer was last opened, or of the last
// look that NATS answered since. It is 0 before Open.
func (s *Source) AckWait() time.Duration { return time.Duration(s.ackWait.Load()) }

// Watch calls Look periodically, and after each transient error of Next, until ctx ends. This is necessary because
// the server reports the deletion of a consumer only to connected clients with a pending pull request, and reports
// no pause or change at all.
func (s *Source) Watch(ctx context.Context) {
	loop.Run(ctx, loop.Options{Every: s.LookEvery, Wake: s.doubt}, func(ctx context.Context) error {
		s.Look(ctx)
		return nil
	})
}

// Look asks the server for the consumer once, unless Next is reopening it. If the consumer is gone or was recreated,
// Look ends the iterator, so that Next reopens the consumer. Otherwise Look updates AckWait, Held and Clock; if NATS
// does not answer, only Held.
func (s *Source) Look(ctx context.Context) {
	from := s.present()
	if from.gone.Load() {
		return
	}
	asked := s.Now()
	info, err := from.look(ctx, s.LookEvery)
	if lost(err) {
		from.end(err)
		return
	}
	if err == nil && s.Clock != nil {
		s.Clock.Measure(asked, info.TimeStamp)
	}
	s.looked(info, err)
}

// mostUnanswered is the number of looks in a row without an answer after which Held reports an error. One
// alone may be lost with a connection.
const mostUnanswered = 2

// looked updates the state from the result of a look.
func (s *Source) looked(info *jetstream.ConsumerInfo, err error) {
	var why error
	if err == nil {
		s.unanswered = 0
		s.ackWait.Store(int64(streams.AckWait(&info.Config)))
		why = streams.Hindrance(info, streams.Use{Subjects: s.Subjects, Batch: s.Prefetch})
	} else if s.unanswered++; s.unanswered >= mostUnanswered {
		why = fmt.Errorf("NATS does not answer questions about the consumer: %w", err)
	}
	switch held := s.held.Load(); {
	case why == nil && err == nil:
		s.held.Store(nil)
	case why != nil && held == nil:
		s.held.Store(&loss{since: s.Now(), why: why})
	case why != nil:
		s.held.Store(&loss{since: held.since, why: why})
	}
}

func (s *Source) present() *iterator {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.from
}

// open opens an iterator on the consumer.
func (s *Source) open(consumer streams.Consumer) (*iterator, error) {
	messages, err := consumer.Messages(s.Prefetch)
	if err != nil {
		return nil, fmt.Errorf("consume events: %w", err)
	}
	info := consumer.CachedInfo()
	s.ackWait.Store(int64(streams.AckWait(&info.Config)))
	return &iterator{consumer: consumer, messages: messages, opened: s.Now(), created: info.Created}, nil
}

// proven separates losses: if an iterator ends later than this after it was opened, or has delivered a message, a new
// loss begins, and the backoff is reset. Otherwise an earlier loss continues, and its pauses keep growing.
const proven = 10 * time.Second

// reopen retries to open the consumer after old has ended, until it succeeds. It returns nil once ctx has
// ended. Messages of old can no longer be settled: if the stream was recreated, their sequences may be those of
// other events, which an acknowledgement would settle. They are redelivered if their stream still has them.
func (s *Source) reopen(ctx context.Context, old *iterator, why error) *iterator {
	old.gone.Store(true)
	if s.lastLoss.IsZero() || old.delivered || s.Now().Sub(old.opened) > proven {
		s.pause.Reset()
		s.lastLoss = s.Now()
	}
	for {
		s.lost.Store(&loss{since: s.lastLoss, why: why})
		after := s.pause.NextBackOff()
		s.Observer.Retry(ctx, observe.Retry{Type: "consume", After: after, Err: why})
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(after):
		}
		from, err := s.opened(ctx)
		if from != nil || ctx.Err() != nil {
			return from
		}
		why = err
	}
}

// opened makes one attempt to open the consumer. It returns an error if the source is drained.
func (s *Source) opened(ctx context.Context) (*iterator, error) {
	consumer, err := s.Reopen(ctx)
	if err != nil {
		return nil, err
	}
	from, err := s.open(consumer)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained { // Drain has drained the iterator before this one
		from.messages.Stop()
		return nil, errors.New("the worker stops, and opens no consumer any more")
	}
	s.from = from
	s.lost.Store(nil)
	s.held.Store(nil)
	return from, nil
}
