package streams

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// delivery is a message that a consumer of a server has delivered.
type delivery struct {
	msg     *nats.Msg
	js      jetstream.JetStream
	settled atomic.Bool
}

func (d *delivery) Metadata() (*jetstream.MsgMetadata, error) {
	m, err := d.msg.Metadata()
	if err != nil {
		return nil, err
	}
	return &jetstream.MsgMetadata{
		Sequence:     jetstream.SequencePair{Consumer: m.Sequence.Consumer, Stream: m.Sequence.Stream},
		NumDelivered: m.NumDelivered, NumPending: m.NumPending, Timestamp: m.Timestamp,
		Stream: m.Stream, Consumer: m.Consumer, Domain: m.Domain,
	}, nil
}

func (d *delivery) Data() []byte         { return d.msg.Data }
func (d *delivery) Headers() nats.Header { return d.msg.Header }
func (d *delivery) Subject() string      { return d.msg.Subject }
func (d *delivery) Reply() string        { return d.msg.Reply }

// The answers to a delivery (ADR-15 of the NATS architecture).
const (
	ack        = "+ACK"
	nak        = "-NAK"
	inProgress = "+WPI"
	term       = "+TERM"
)

func (d *delivery) Ack() error { return d.settle(ack) }

func (d *delivery) DoubleAck(ctx context.Context) error {
	ctx, cancel := Bounded(ctx, d.js)
	defer cancel()
	return d.unlessSettled(true, func() error {
		_, err := d.js.Conn().RequestWithContext(ctx, d.msg.Reply, []byte(ack))
		return err
	})
}

func (d *delivery) Nak() error { return d.settle(nak) }

func (d *delivery) NakWithDelay(delay time.Duration) error {
	return d.settle(fmt.Sprintf(`%s {"delay": %d}`, nak, delay))
}

func (d *delivery) InProgress() error {
	return d.unlessSettled(false, func() error { return d.msg.Respond([]byte(inProgress)) })
}

func (d *delivery) Term() error { return d.settle(term) }

func (d *delivery) TermWithReason(reason string) error { return d.settle(term + " " + reason) }

func (d *delivery) settle(answer string) error {
	return d.unlessSettled(true, func() error { return d.msg.Respond([]byte(answer)) })
}

// unlessSettled calls say unless the message is settled, which is the error jetstream.ErrMsgAlreadyAckd. last says
// that the call of say, if it succeeds, settles the message.
func (d *delivery) unlessSettled(last bool, say func() error) error {
	if d.settled.Load() {
		return jetstream.ErrMsgAlreadyAckd
	}
	err := say()
	if err == nil && last {
		d.settled.Store(true)
	}
	return err
}
