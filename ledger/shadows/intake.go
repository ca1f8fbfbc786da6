package shadows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// A listening Intake checks every lookAgain whether the workers' consumer is gone. It takes its place after as many
// checks in a row as missing says: workers create a consumer again that an operator deleted, and an event that the
// shadow takes in between would never be answered.
const (
	lookAgain = 30 * time.Second
	missing   = 3
)

// Intake copies published events into the stream of a shadow. A work-queue stream delivers an event to
// one consumer only, so there are two modes. While no worker has a consumer on HAP_EVENTS, the Intake
// has one: it takes every event, and events wait in the stream while no shadow runs. Otherwise the
// Intake subscribes to the subjects beside the workers, and misses events that are published while no
// shadow listens.
type Intake struct {
	js       jetstream.JetStream
	subjects events.Subjects
	tell     func(string)
	retry    func(error)
	every    time.Duration    // between two looks
	looked   func(inARow int) // called after each look: how often in a row the workers' consumer was missing
}

// NewIntake returns the intake of a shadow for the workers' subjects. Run calls tell with the mode each
// time that a mode begins, and retry with each failure. It retries after every failure, except that an event
// to which it listened beside the workers is lost to the shadow if the copy fails.
func NewIntake(js jetstream.JetStream, subjects events.Subjects, tell func(string), retry func(error)) *Intake {
	return &Intake{js: js, subjects: subjects, tell: tell, retry: retry, every: lookAgain, looked: func(int) {}}
}

// Setup ensures that the workers' stream of published events exists, as storage.Setup does for all their
// streams.
func (i *Intake) Setup(ctx context.Context, o storage.Options) (differences []string, err error) {
	o.Shadow = false
	defined, err := o.WithDefaults().Streams()
	if err != nil {
		return nil, err
	}
	return streams.Ensure(ctx, i.js, defined[0], o.Manage)
}

// Run copies until ctx ends.
func (i *Intake) Run(ctx context.Context) {
	pause := backoff.WithContext(backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0)), ctx)
	beside := false                  // the events are the workers'
	_ = backoff.Retry(func() error { // ends with ctx only
		var consumer streams.Consumer
		var err error
		if !beside {
			consumer, err = i.consumer(ctx)
			beside = streams.TakenByOther(err)
		}
		switch {
		case beside:
			err = i.listen(ctx)
			beside = err != nil
		case err == nil:
			err = i.take(ctx, consumer)
			beside = err == nil // a worker that starts deletes the consumer, and makes its own
		}
		if ctx.Err() != nil {
			return backoff.Permanent(context.Cause(ctx))
		}
		if err == nil {
			pause.Reset()
			err = errChanged
		} else {
			i.retry(err)
		}
		return err
	}, pause)
}

// errChanged says that the mode has to change: the shadow's consumer was deleted, or the workers' is
// gone.
var errChanged = errors.New("the consumer of the events has changed")

// consumer returns the shadow's consumer, and creates it if it is missing. The server refuses that
// while the workers have one (streams.TakenByOther).
func (i *Intake) consumer(ctx context.Context) (streams.Consumer, error) {
	ctx, cancel := streams.Bounded(ctx, i.js)
	defer cancel()
	consumer, err := streams.PullConsumer(ctx, i.js, events.StreamEvents, events.ConsumerShadow)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return consumer, err
	}
	_, err = i.js.CreateConsumer(ctx, events.StreamEvents, jetstream.ConsumerConfig{
		Durable: events.ConsumerShadow, Description: "a shadow's, while there is no worker",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxDeliver: -1,
	})
	if err != nil && !errors.Is(err, jetstream.ErrConsumerExists) {
		return nil, err
	}
	return streams.PullConsumer(ctx, i.js, events.StreamEvents, events.ConsumerShadow)
}

// take copies events and acknowledges them, which removes them from HAP_EVENTS. It returns nil once the
// shadow's consumer is deleted, for example by the setup of a worker, and otherwise an error.
func (i *Intake) take(ctx context.Context, consumer streams.Consumer) error {
	messages, err := consumer.Messages(64)
	if err != nil {
		return fmt.Errorf("taking events of %s: %w", events.StreamEvents, err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	i.tell("the shadow takes the events: no worker has a consumer")
	for {
		msg, err := messages.Next()
		switch {
		case errors.Is(err, jetstream.ErrConsumerDeleted):
			return nil
		case err != nil:
			// If the consumer is deleted before a request arrives, the server says only that nothing answers.
			if gone, _ := i.gone(ctx, events.ConsumerShadow); gone {
				return nil
			}
			return fmt.Errorf("taking events of %s: %w", events.StreamEvents, err)
		}
		// An event that is copied but not acknowledged is delivered and copied again.
		if err := i.copy(ctx, msg.Subject(), msg.Headers(), msg.Data()); err != nil {
			return errors.Join(err, msg.NakWithDelay(time.Second))
		}
		if err := msg.Ack(); err != nil {
			return fmt.Errorf("taking an event out of %s: %w", events.StreamEvents, err)
		}
	}
}

// listen copies the events that are published for the workers, until the workers have had no consumer for a while, or
// ctx ends; it then returns nil. Several shadows share the events: each event goes to one shadow.
func (i *Intake) listen(ctx context.Context) error {
	heard := make(chan *nats.Msg, 4096)
	for _, subject := range i.subjects.Events() {
		s, err := i.js.Conn().ChanQueueSubscribe(subject, events.ConsumerShadow, heard)
		if err != nil {
			return fmt.Errorf("listening to %s: %w", subject, err)
		}
		defer func() { _ = s.Unsubscribe() }()
	}
	i.tell("the shadow listens: the events are the workers'")
	look := time.NewTicker(i.every)
	defer look.Stop()
	for inARow := 0; inARow < missing; {
		select {
		case <-ctx.Done():
			return nil
		case msg := <-heard:
			if err := i.copy(ctx, msg.Subject, msg.Header, msg.Data); err != nil {
				i.retry(fmt.Errorf("the shadow misses an event: %w", err))
			}
		case <-look.C:
			gone, err := i.gone(ctx, events.ConsumerWorker)
			if gone {
				inARow++
			} else {
				inARow = 0
			}
			if err != nil && ctx.Err() == nil {
				i.retry(err)
			}
			i.looked(inARow)
		}
	}
	return nil
}

// gone reports whether a consumer of the events does not exist.
func (i *Intake) gone(ctx context.Context, consumer string) (bool, error) {
	ctx, cancel := streams.Bounded(ctx, i.js)
	defer cancel()
	_, err := i.js.Consumer(ctx, events.StreamEvents, consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return true, nil
	}
	return false, err
}

// copy stores an event unchanged, except for headers that the server would interpret or the client refuses. It keeps the
// message id, so that a second copy within the duplicate window is dropped.
func (i *Intake) copy(ctx context.Context, subject string, header nats.Header, data []byte) error {
	shadow := i.subjects.Shadow()
	msg := &nats.Msg{Subject: shadow.Prefix() + strings.TrimPrefix(subject, i.subjects.Prefix()), Header: nats.Header{}, Data: data}
	for name, values := range header {
		if !strings.HasPrefix(strings.ToLower(name), "nats-") && streams.Publishable(name) {
			msg.Header[name] = values
		}
	}
	options := []jetstream.PublishOpt{jetstream.WithExpectStream(shadow.Stream(events.StreamEvents))}
	if id := header.Get(jetstream.MsgIDHeader); id != "" {
		options = append(options, jetstream.WithMsgID(id))
	}
	ctx, cancel := streams.Bounded(ctx, i.js)
	defer cancel()
	if _, err := i.js.PublishMsg(ctx, msg, options...); err != nil {
		return fmt.Errorf("copying an event from %s to %s: %w", subject, shadow.Stream(events.StreamEvents), err)
	}
	return nil
}
