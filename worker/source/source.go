// Package source takes messages from the consumer that all workers share, and opens that
// consumer again where it is lost.
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

// Options are what a source works with.
type Options struct {
	Consumer jetstream.Consumer
	// Reopen returns the consumer again after it was lost, and may create it. Its
	// errors are transient. Defaults to Consumer, once the server has it.
	Reopen func(context.Context) (jetstream.Consumer, error)
	// Prefetch is how many messages are requested at once. What is prefetched waits with
	// its AckWait running, so no more than can be begun.
	Prefetch int
	// Subjects are those of the messages that the consumer is to have.
	Subjects []string
	// LookEvery is how often Watch asks the server for the consumer.
	LookEvery time.Duration
	Observer  *observe.Observer
	Now       func() time.Time
	// Clock, which may be nil, is measured at each look.
	Clock *clock.Clock
}

// Source takes messages, after Open. One goroutine calls Next.
type Source struct {
	Options

	mu      sync.Mutex
	from    *iterator // the present one, or the last
	drained bool

	ackWait    atomic.Int64         // of the consumer, in nanoseconds
	held       atomic.Pointer[loss] // nil while the server delivers
	unanswered int                  // looks in a row without an answer; of the goroutine that looks

	lost     atomic.Pointer[loss]        // nil while messages are taken
	lastLoss time.Time                   // of the goroutine that calls Next
	pause    *backoff.ExponentialBackOff // before the next attempt to open the consumer; likewise
}

// loss is a consumer that is gone, or that delivers nothing.
type loss struct {
	since time.Time
	why   error
}

// New returns a source that is not opened yet.
func New(o Options) *Source {
	if o.Reopen == nil {
		o.Reopen = func(ctx context.Context) (jetstream.Consumer, error) {
			_, err := o.Consumer.Info(ctx)
			return o.Consumer, err
		}
	}
	return &Source{Options: o, pause: backoff.NewExponentialBackOff(
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

// Next returns the next message. Where the consumer goes, it begins again with the next one
// of that name. It returns false once ctx has ended and the source is drained; what is
// delivered meanwhile goes back to the stream.
func (s *Source) Next(ctx context.Context) (Message, bool) {
	for from := s.present(); from != nil; {
		msg, err := from.messages.Next()
		switch {
		case err == nil && ctx.Err() == nil:
			from.delivered = true
			facts, err := msg.Metadata()
			return Message{Msg: msg, from: from, facts: facts, unread: err}, true
		case err == nil:
			_ = msg.Nak() // not begun: another worker can have it at once
		case !ended(err):
			// The iterator goes on by itself after a lost connection or a missed heartbeat.
			s.Observer.Retry(ctx, observe.Retry{Type: "consume", Err: err})
		case ctx.Err() != nil:
			return Message{}, false
		default:
			from = s.reopen(ctx, from, from.why(err))
		}
	}
	return Message{}, false
}

// Drain takes no more messages than were requested.
func (s *Source) Drain() {
	s.mu.Lock()
	s.drained = true
	from := s.from
	s.mu.Unlock()
	from.messages.Drain()
}

// Lost returns since when no messages are taken, and why; no error while they are.
func (s *Source) Lost() (since time.Time, why error) {
	if lost := s.lost.Load(); lost != nil {
		return lost.since, lost.why
	}
	return time.Time{}, nil
}

// Held returns since when the server delivers nothing although the consumer is there, such as
// one that is paused, and why; no error while it delivers.
func (s *Source) Held() (since time.Time, why error) {
	if held := s.held.Load(); held != nil {
		return held.since, held.why
	}
	return time.Time{}, nil
}

// AckWait returns how long the server waits for a sign of life of a message: the consumer's,
// as it was seen last.
func (s *Source) AckWait() time.Duration { return time.Duration(s.ackWait.Load()) }

// Watch ends an iterator whose consumer is gone, or is another one of its name, until ctx
// ends. The server tells only those that are connected and have asked for messages when a
// consumer is deleted, and tells no worker that a consumer was paused or changed.
func (s *Source) Watch(ctx context.Context) {
	loop.Run(ctx, loop.Options{Every: s.LookEvery}, func(ctx context.Context) error {
		s.Look(ctx)
		return nil
	})
}

// Look asks the server for the consumer once.
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

// mostUnanswered is how many looks may go by without an answer before that means something:
// one alone may be lost with a connection.
const mostUnanswered = 2

// looked notes what a look at the consumer has told.
func (s *Source) looked(info *jetstream.ConsumerInfo, err error) {
	var why error
	if err == nil {
		s.unanswered = 0
		s.ackWait.Store(int64(streams.AckWait(&info.Config)))
		why = streams.Hindrance(info, streams.Use{Subjects: s.Subjects, Batch: s.Prefetch})
	} else if s.unanswered++; s.unanswered >= mostUnanswered {
		why = fmt.Errorf("NATS says nothing about the consumer: %w", err)
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
func (s *Source) open(consumer jetstream.Consumer) (*iterator, error) {
	messages, err := consumer.Messages(jetstream.PullMaxMessages(s.Prefetch))
	if err != nil {
		return nil, fmt.Errorf("consume events: %w", err)
	}
	info := consumer.CachedInfo()
	s.ackWait.Store(int64(streams.AckWait(&info.Config)))
	return &iterator{consumer: consumer, messages: messages, opened: s.Now(), created: info.Created}, nil
}

// proven is how long an iterator that delivers nothing has to last before its loss
// is a new one: the pauses go on where one ends as soon as it is opened.
const proven = 10 * time.Second

// reopen opens the consumer again after old has ended, and tries until that succeeds;
// nil once ctx has ended. What old delivered is not settled any more: where the
// stream was recreated, its sequences begin anew, and an acknowledgement would be that
// of another event. The event itself is delivered again if its stream still has it.
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

// opened is one attempt to open the consumer. It returns nothing once the source is
// drained.
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
	if s.drained { // which has drained the one before
		from.messages.Stop()
		return nil, errors.New("stopping")
	}
	s.from = from
	s.lost.Store(nil)
	s.held.Store(nil)
	return from, nil
}
