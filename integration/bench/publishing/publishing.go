// Package publishing publishes the messages of benchmarks, without a wait for each acknowledgement.
package publishing

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrRefused is the error if a stream has not stored a message.
var ErrRefused = errors.New("a message is not stored")

// Publisher is JetStream that keeps the first error of the messages published with its Async methods.
type Publisher struct {
	jetstream.JetStream

	refused chan error
}

// New returns a publisher. At most ahead messages are without acknowledgement at any time.
func New(nc *nats.Conn, ahead int) (*Publisher, error) {
	p := &Publisher{refused: make(chan error, 1)}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(ahead), jetstream.WithPublishAsyncErrHandler(
		func(_ jetstream.JetStream, msg *nats.Msg, err error) {
			select {
			case p.refused <- fmt.Errorf("%w: %s: %w", ErrRefused, msg.Subject, err):
			default:
			}
		}))
	p.JetStream = js
	return p, err
}

// Published waits until every message is stored or refused. It returns the first refusal since the last call.
func (p *Publisher) Published(ctx context.Context) error {
	select {
	case <-p.PublishAsyncComplete():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-p.refused:
		return err
	default:
		return nil
	}
}
