package source

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/streams"
)

// iterator returns the messages of one consumer until the consumer disappears.
type iterator struct {
	consumer  streams.Consumer
	messages  streams.Messages
	opened    time.Time
	created   time.Time // when the consumer was created
	delivered bool      // it has returned a message; only the goroutine that calls Next uses this field

	gone  atomic.Bool // its messages can no longer be settled
	cause atomic.Pointer[error]
}

// ended reports whether err means that the iterator returns no further messages. All other
// errors are transient.
func ended(err error) bool {
	return errors.Is(err, jetstream.ErrMsgIteratorClosed) || errors.Is(err, jetstream.ErrConsumerDeleted)
}

// end stops the iterator.
func (i *iterator) end(why error) {
	i.cause.Store(&why)
	i.messages.Stop()
}

// why returns the cause that end was called with. Without one it returns err.
func (i *iterator) why(err error) error {
	if cause := i.cause.Load(); cause != nil {
		return *cause
	}
	return err
}

// errRecreated means that the consumer was deleted and created again under the same name.
var errRecreated = errors.New("the consumer was recreated")

// lost reports whether err means that the consumer is gone.
func lost(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, errRecreated)
}

// look asks the server for the consumer. An error for which lost returns false counts as no answer.
func (i *iterator) look(ctx context.Context, within time.Duration) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	info, err := i.consumer.Info(ctx)
	if err == nil && !info.Created.Equal(i.created) {
		return nil, errRecreated
	}
	return info, err
}

// ErrGone means that a message can no longer be settled.
var ErrGone = errors.New("the consumer that delivered the event is gone; the event is delivered again if its stream still has it")

// Message can be settled until the source has noticed that the consumer which delivered it is gone. Then each
// method that sends an acknowledgement returns ErrGone.
type Message struct {
	jetstream.Msg
	from   *iterator
	facts  *jetstream.MsgMetadata
	unread error // why facts could not be read
}

// Metadata returns the metadata of the delivery. It was parsed once, when the message was received.
func (m Message) Metadata() (*jetstream.MsgMetadata, error) { return m.facts, m.unread }

// Size returns the bytes of the message's data and header.
func (m Message) Size() int {
	size := len(m.Data())
	for name, values := range m.Headers() {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

func (m Message) unlessGone(do func() error) error {
	if m.from.gone.Load() {
		return ErrGone
	}
	return do()
}

// Ack settles the message.
func (m Message) Ack() error { return m.unlessGone(m.Msg.Ack) }

// DoubleAck settles the message, and waits until the server confirms it.
func (m Message) DoubleAck(ctx context.Context) error {
	return m.unlessGone(func() error { return m.Msg.DoubleAck(ctx) })
}

// Nak asks the server to redeliver the message at once.
func (m Message) Nak() error { return m.unlessGone(m.Msg.Nak) }

// NakWithDelay asks the server to redeliver the message after delay.
func (m Message) NakWithDelay(delay time.Duration) error {
	return m.unlessGone(func() error { return m.Msg.NakWithDelay(delay) })
}

// InProgress restarts the message's AckWait.
func (m Message) InProgress() error { return m.unlessGone(m.Msg.InProgress) }

// Term tells the server never to redeliver the message.
func (m Message) Term() error { return m.unlessGone(m.Msg.Term) }

// TermWithReason tells the server never to redeliver the message, and why.
func (m Message) TermWithReason(reason string) error {
	return m.unlessGone(func() error { return m.Msg.TermWithReason(reason) })
}
