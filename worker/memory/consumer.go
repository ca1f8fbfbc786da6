package memory

import (
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// consumer delivers the messages of a work queue, each until it is acknowledged. The lock of its broker
// guards it.
type consumer struct {
	broker    *Broker
	stream    *stream
	config    jetstream.ConsumerConfig
	created   time.Time
	begin     uint64               // first sequence of the stream that was never delivered
	delivered uint64               // number of deliveries, including redeliveries
	pending   map[uint64]*delivery // by sequence of the stream: delivered and not settled
	again     []uint64             // sequences to redeliver now, in order
	soonest   time.Time            // lower bound of the due times in pending; zero for none
	pulls     []*pull              // waiting for a message, oldest first
	wake      *time.Timer          // fires at soonest; nil while no pull waits or nothing is to be redelivered
}

// delivery is the state of a pending message.
type delivery struct {
	times  uint64    // number of deliveries
	due    time.Time // when to redeliver it
	queued bool      // its sequence is in consumer.again
}

// pull is a request for one message.
type pull struct {
	by  *iterator
	got chan pulled // of capacity one
}

type pulled struct {
	msg *message
	err error
}

func newConsumer(b *Broker, s *stream, config jetstream.ConsumerConfig) *consumer {
	config.Name = config.Durable
	return &consumer{broker: b, stream: s, config: config, created: b.instant(), begin: 1, pending: map[uint64]*delivery{}}
}

func (c *consumer) info() *jetstream.ConsumerInfo {
	return &jetstream.ConsumerInfo{
		Stream: c.stream.config.Name, Name: c.config.Durable, Created: c.created, Config: c.config, TimeStamp: time.Now(),
		NumAckPending: len(c.pending), NumRedelivered: c.redelivered(), NumWaiting: len(c.pulls), NumPending: c.undelivered(),
	}
}

func (c *consumer) redelivered() (n int) {
	for _, d := range c.pending {
		if d.times > 1 {
			n++
		}
	}
	return n
}

// undelivered returns the number of messages that were never delivered.
func (c *consumer) undelivered() uint64 { return uint64(max(0, c.stream.live-len(c.pending))) }

// end ends all pulls with the error: the consumer is deleted, or the broker closed.
func (c *consumer) end(why error) {
	for _, p := range c.pulls {
		p.got <- pulled{err: why}
	}
	c.pulls = nil
	c.stopTimer()
}

// dispatch delivers one message to each waiting pull, oldest pull first, while there are messages.
func (c *consumer) dispatch() {
	c.stopTimer()
	if len(c.pulls) == 0 {
		return
	}
	now := time.Now()
	c.expire(now)
	for len(c.pulls) > 0 {
		m := c.take()
		if m == nil {
			c.waitForDue(now)
			return
		}
		p := c.pulls[0]
		c.pulls = slices.Delete(c.pulls, 0, 1)
		p.got <- pulled{msg: c.deliver(m, now)}
	}
}

// take returns the next message to deliver, or nil. Redeliveries come first. New messages wait while
// MaxAckPending are pending.
func (c *consumer) take() *stored {
	if len(c.again) > 0 {
		sequence := c.again[0]
		c.again = c.again[1:]
		return c.stream.at(sequence)
	}
	if c.config.MaxAckPending > 0 && len(c.pending) >= c.config.MaxAckPending {
		return nil
	}
	m := c.stream.next(c.begin, ">")
	if m != nil {
		c.begin = m.sequence + 1
	}
	return m
}

func (c *consumer) deliver(m *stored, now time.Time) *message {
	d := c.pending[m.sequence]
	if d == nil {
		d = new(delivery)
		c.pending[m.sequence] = d
	}
	c.delivered++
	d.times++
	d.queued = false
	c.postpone(d, now.Add(c.config.AckWait))
	read := m.read()
	return &message{
		broker: c.broker, subject: read.Subject, header: read.Header, data: read.Data,
		facts: jetstream.MsgMetadata{
			Sequence:     jetstream.SequencePair{Stream: m.sequence, Consumer: c.delivered},
			NumDelivered: d.times, NumPending: c.undelivered(), Timestamp: m.time,
			Stream: c.stream.config.Name, Consumer: c.config.Durable,
		},
	}
}

// postpone sets when a message is redelivered.
func (c *consumer) postpone(d *delivery, due time.Time) {
	d.due = due
	if c.soonest.IsZero() || due.Before(c.soonest) {
		c.soonest = due
	}
}

// expire queues the messages whose redelivery is due, in the order of the stream.
func (c *consumer) expire(now time.Time) {
	if c.soonest.IsZero() || now.Before(c.soonest) {
		return
	}
	c.soonest = time.Time{}
	var due []uint64
	for sequence, d := range c.pending {
		switch {
		case d.queued:
		case now.Before(d.due):
			c.postpone(d, d.due)
		default:
			due = append(due, sequence)
			d.queued = true
		}
	}
	slices.Sort(due)
	c.again = append(c.again, due...)
}

// waitForDue starts a timer that dispatches when the next redelivery is due.
func (c *consumer) waitForDue(now time.Time) {
	if c.soonest.IsZero() {
		return
	}
	c.wake = time.AfterFunc(c.soonest.Sub(now), func() {
		c.broker.mu.Lock()
		defer c.broker.mu.Unlock()
		if !c.broker.closed {
			c.dispatch()
		}
	})
}

func (c *consumer) stopTimer() {
	if c.wake != nil {
		c.wake.Stop()
		c.wake = nil
	}
}

// settle removes an acknowledged message from the work queue.
func (c *consumer) settle(sequence uint64) {
	if c.pending[sequence] == nil {
		return
	}
	c.stream.remove(c.stream.at(sequence))
	c.dispatch()
}

// forget drops the delivery of a removed message.
func (c *consumer) forget(sequence uint64) {
	if c.pending[sequence] != nil {
		delete(c.pending, sequence)
		c.unqueue(sequence)
	}
}

// giveBack redelivers a message after the delay.
func (c *consumer) giveBack(sequence uint64, delay time.Duration) {
	d := c.pending[sequence]
	switch {
	case d == nil:
		return
	case delay > 0:
		c.unqueue(sequence)
		d.queued = false
		c.postpone(d, time.Now().Add(delay))
	case !d.queued:
		d.queued = true
		c.again = append(c.again, sequence)
	}
	c.dispatch()
}

// progress restarts the AckWait of a message.
func (c *consumer) progress(sequence uint64) {
	if d := c.pending[sequence]; d != nil {
		c.postpone(d, time.Now().Add(c.config.AckWait))
	}
}

func (c *consumer) unqueue(sequence uint64) {
	if i := slices.Index(c.again, sequence); i >= 0 {
		c.again = slices.Delete(c.again, i, i+1)
	}
}
