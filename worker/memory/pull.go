package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/streams"
)

// Consumer is a handle on the consumer that has this name now, also after it was recreated.
type Consumer struct {
	broker       *Broker
	stream, name string
	info         *jetstream.ConsumerInfo // guarded by the lock of the broker
}

var (
	_ streams.Consumer = (*Consumer)(nil)
	_ streams.Messages = (*iterator)(nil)
	_ jetstream.Msg    = (*message)(nil)
)

// Consumer returns the workers' consumer. Errors: jetstream.ErrStreamNotFound,
// jetstream.ErrConsumerNotFound.
func (b *Broker) Consumer(ctx context.Context) (streams.Consumer, error) {
	configs, err := b.options.Streams()
	if err != nil {
		return nil, err
	}
	c := &Consumer{broker: b, stream: configs[0].Name, name: b.options.Consumer().Durable}
	if _, err := c.Info(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Info returns the present state of the consumer.
func (c *Consumer) Info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	found, err := c.broker.consumer(c.stream, c.name)
	if err != nil {
		return nil, err
	}
	c.info = found.info()
	return c.info, nil
}

// CachedInfo returns the last result of Info.
func (c *Consumer) CachedInfo() *jetstream.ConsumerInfo {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	return c.info
}

// Messages returns an iterator that pulls one message at a time: a message is delivered when Next is called, and
// not prefetched.
func (c *Consumer) Messages(int) (streams.Messages, error) {
	return &iterator{broker: c.broker, stream: c.stream, name: c.name}, nil
}

// iterator pulls messages one by one.
type iterator struct {
	broker       *Broker
	stream, name string
	closed       bool // guarded by the lock of the broker
}

// Next blocks until there is a message. Errors: jetstream.ErrMsgIteratorClosed, jetstream.ErrConsumerDeleted.
func (i *iterator) Next() (jetstream.Msg, error) {
	p, err := i.pull()
	if err != nil {
		return nil, err
	}
	got := <-p.got
	if got.err != nil {
		return nil, got.err
	}
	return got.msg, nil
}

func (i *iterator) pull() (*pull, error) {
	i.broker.mu.Lock()
	defer i.broker.mu.Unlock()
	if i.closed || i.broker.closed {
		return nil, jetstream.ErrMsgIteratorClosed
	}
	c, err := i.broker.consumer(i.stream, i.name)
	if err != nil {
		return nil, jetstream.ErrConsumerDeleted
	}
	p := &pull{by: i, got: make(chan pulled, 1)}
	c.pulls = append(c.pulls, p)
	c.dispatch()
	return p, nil
}

// Stop ends the iterator: Next returns jetstream.ErrMsgIteratorClosed.
func (i *iterator) Stop() {
	i.broker.mu.Lock()
	defer i.broker.mu.Unlock()
	i.closed = true
	c, err := i.broker.consumer(i.stream, i.name)
	if err != nil {
		return // its pulls ended with the consumer
	}
	c.pulls = slices.DeleteFunc(c.pulls, func(p *pull) bool {
		if p.by == i {
			p.got <- pulled{err: jetstream.ErrMsgIteratorClosed}
		}
		return p.by == i
	})
	c.dispatch()
}

// Drain is Stop, since nothing is prefetched.
func (i *iterator) Drain() { i.Stop() }

// message is one delivery. It is acknowledged by consumer name and sequence, as on a server: after the stream
// was recreated, the acknowledgement settles the message that has this sequence then.
type message struct {
	broker  *Broker
	subject string
	header  nats.Header
	data    []byte
	facts   jetstream.MsgMetadata

	mu      sync.Mutex
	settled bool
}

func (m *message) Metadata() (*jetstream.MsgMetadata, error) {
	facts := m.facts
	return &facts, nil
}

func (m *message) Data() []byte         { return m.data }
func (m *message) Headers() nats.Header { return m.header }
func (m *message) Subject() string      { return m.subject }

// Reply returns "": a message is settled by a call, not by a reply.
func (m *message) Reply() string { return "" }

func (m *message) Ack() error { return m.say(true, (*consumer).settle) }

func (m *message) DoubleAck(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.Ack()
}

func (m *message) Nak() error { return m.NakWithDelay(0) }

func (m *message) NakWithDelay(delay time.Duration) error {
	return m.say(true, func(c *consumer, sequence uint64) { c.giveBack(sequence, delay) })
}

func (m *message) InProgress() error { return m.say(false, (*consumer).progress) }

func (m *message) Term() error { return m.Ack() }

func (m *message) TermWithReason(string) error { return m.Ack() }

// say calls tell with the consumer and the message's sequence; last means that this settles the message. It
// does nothing, without an error, if the consumer is gone. Errors: jetstream.ErrMsgAlreadyAckd,
// nats.ErrConnectionClosed.
func (m *message) say(last bool, tell func(*consumer, uint64)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.settled {
		return jetstream.ErrMsgAlreadyAckd
	}
	m.broker.mu.Lock()
	defer m.broker.mu.Unlock()
	if m.broker.closed {
		return nats.ErrConnectionClosed
	}
	m.settled = last
	if c, err := m.broker.consumer(m.facts.Stream, m.facts.Consumer); err == nil {
		tell(c, m.facts.Sequence.Stream)
	}
	return nil
}
