package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// World is the streams of hap-worker, with the workers' consumer and operations with which tests change
// streams and consumer while workers use them.
type World interface {
	streams.Streams
	// Consumer returns the workers' consumer; an error if it does not exist.
	Consumer(ctx context.Context) (streams.Consumer, error)
	// Setup creates missing streams and the consumer.
	Setup() error
	DeleteConsumer(stream, name string) error
	DeleteStream(name string) error
	// Listen calls hear with each message on a subject, one at a time, until stop is called.
	Listen(subject string, hear func(*nats.Msg)) (stop func())
}

// served is the World of a NATS server.
type served struct {
	streams.Streams
	t       testing.TB
	js      jetstream.JetStream
	options storage.Options
}

// World returns the streams of the server as the options define them, set up.
func (s *NATS) World(o storage.Options) World {
	s.t.Helper()
	js := s.JetStream()
	o.Manage = true
	w := &served{Streams: streams.New(js), t: s.t, js: js, options: o}
	if err := w.Setup(); err != nil {
		s.t.Fatal(err)
	}
	return w
}

func (w *served) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), ready)
}

func (w *served) Consumer(ctx context.Context) (streams.Consumer, error) {
	defined, err := w.options.Streams()
	if err != nil {
		return nil, err
	}
	return streams.PullConsumer(ctx, w.js, defined[0].Name, events.ConsumerWorker)
}

func (w *served) Setup() error {
	ctx, cancel := w.within()
	defer cancel()
	_, err := storage.Setup(ctx, w.js, w.options)
	return err
}

func (w *served) DeleteConsumer(stream, name string) error {
	ctx, cancel := w.within()
	defer cancel()
	return w.js.DeleteConsumer(ctx, stream, name)
}

func (w *served) DeleteStream(name string) error {
	ctx, cancel := w.within()
	defer cancel()
	return w.js.DeleteStream(ctx, name)
}

func (w *served) Listen(subject string, hear func(*nats.Msg)) (stop func()) {
	heard, err := w.js.Conn().Subscribe(subject, hear)
	if err == nil {
		err = w.js.Conn().FlushTimeout(ready) // the server has the subscription from here on
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return func() { _ = heard.Unsubscribe() }
}

// patience is how long the suite waits for what must come.
const patience = 30 * time.Second
