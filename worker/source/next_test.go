package source_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/source"
)

// consumerFake returns an iterator or an error. Methods that are not defined below panic.
type consumerFake struct {
	streams.Consumer
	messages *messagesFake
	err      error
}

func (c *consumerFake) Messages(int) (streams.Messages, error) {
	return c.messages, c.err
}

// Info finds no consumer.
func (c *consumerFake) Info(context.Context) (*jetstream.ConsumerInfo, error) {
	return nil, jetstream.ErrConsumerNotFound
}

func (c *consumerFake) CachedInfo() *jetstream.ConsumerInfo { return &jetstream.ConsumerInfo{} }

// messagesFake is an iterator that returns refused, if it is an error, and then the messages of a channel, until
// that is closed.
type messagesFake struct {
	streams.Messages
	refused error
	all     chan jetstream.Msg
}

func (m *messagesFake) Next() (jetstream.Msg, error) {
	if refused := m.refused; refused != nil {
		m.refused = nil
		return nil, refused
	}
	if msg, more := <-m.all; more {
		return msg, nil
	}
	return nil, jetstream.ErrMsgIteratorClosed
}

func (m *messagesFake) Drain() { close(m.all) }

func (m *messagesFake) Stop() { close(m.all) }

// message counts its Nak calls.
type message struct {
	jetstream.Msg
	naks int
}

func (m *message) Nak() error {
	m.naks++
	return nil
}

// Next naks messages that are delivered after ctx has ended, then returns false.
func TestMessageThatComesTooLate(t *testing.T) {
	t.Parallel()
	consumer := &consumerFake{messages: &messagesFake{all: make(chan jetstream.Msg, 1)}, err: errors.New("not now")}
	s := source.New(source.Options{Consumer: consumer, Now: time.Now, Observer: &observe.Observer{}})
	if err := s.Open(); !errors.Is(err, consumer.err) {
		t.Errorf("opened: %v", err)
	}
	consumer.err = nil
	if err := s.Open(); err != nil {
		t.Errorf("opened again: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late := &message{}
	consumer.messages.all <- late
	s.Drain()
	if msg, ok := s.Next(ctx); ok || late.naks != 1 {
		t.Errorf("next is %v, %t; the late message went back %d times, want once", msg, ok, late.naks)
	}
}

// If the consumer is lost as soon as it is opened, that counts as one loss: the pauses grow, and Lost keeps
// the time of the first.
func TestConsumerThatGoesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := &messagesFake{all: make(chan jetstream.Msg)}
		close(ended.all)
		begin, attempts := time.Now(), 0
		s := source.New(source.Options{
			Consumer: &consumerFake{messages: ended}, Now: time.Now, Observer: &observe.Observer{},
			Reopen: func(context.Context) (streams.Consumer, error) {
				attempts++
				return &consumerFake{messages: ended}, nil
			},
		})
		if err := s.Open(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, ok := s.Next(ctx); ok {
			t.Error("there is a message")
		}
		if since, why := s.Lost(); !since.Equal(begin) || !errors.Is(why, jetstream.ErrMsgIteratorClosed) {
			t.Errorf("lost %s after the begin: %v", since.Sub(begin), why)
		}
		if attempts < 8 || attempts > 30 { // without growing pauses some 240
			t.Errorf("%d attempts in a minute", attempts)
		}
	})
}

// If the consumer is deleted before the first request has reached the server, the server only says that it does not
// deliver. The source then looks at once.
func TestConsumerThatGoesBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := source.New(source.Options{
			Consumer:  &consumerFake{messages: &messagesFake{refused: nats.ErrNoResponders, all: make(chan jetstream.Msg)}},
			LookEvery: time.Hour, Now: time.Now, Observer: &observe.Observer{},
		})
		if err := s.Open(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go s.Watch(ctx)
		if _, ok := s.Next(ctx); ok {
			t.Error("there is a message")
		}
		if since, why := s.Lost(); !since.Equal(begin) || !errors.Is(why, jetstream.ErrConsumerNotFound) {
			t.Errorf("lost %s after the begin: %v", since.Sub(begin), why)
		}
	})
}

// headed is a message with a header alone.
type headed struct{ jetstream.Msg }

func (headed) Data() []byte         { return nil }
func (headed) Headers() nats.Header { return nats.Header{"Big": {"12345", "678"}} }

// TestSize: a header counts, or the bound of a queue would let through what has no data.
func TestSize(t *testing.T) {
	t.Parallel()
	if got := (source.Message{Msg: headed{}}).Size(); got != 14 {
		t.Errorf("%d bytes, want 14", got)
	}
}
