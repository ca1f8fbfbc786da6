package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// tryFor bounds one attempt of something that is tried until ctx ends.
const tryFor = 5 * time.Second

// JetStream's error codes after which the same message is refused again.
const (
	codeMessageTooLarge = 10054
	codeOtherStream     = 10060
)

// encode gives the message of an event and its subject, with the trace of ctx.
func (c *Client) encode(ctx context.Context, e *Event) (data []byte, subject string, err error) {
	if e.Traceparent == "" {
		carrier := nats.Header{}
		inject(ctx, carrier)
		e.Traceparent, e.Tracestate = Carrier(carrier).Get("traceparent"), Carrier(carrier).Get("tracestate")
	}
	if data, err = EncodeEvent(*e); err != nil {
		return nil, "", err
	}
	return data, e.subject(c.subjects), nil
}

// Publication returns the message that publishes an event on its subject, with the id
// that stands for it once within the duplicate window. Errors: an *engine.Error with
// CodeInvalidEvent for an event that a worker would refuse.
func Publication(ctx context.Context, s Subjects, e Event) (*nats.Msg, error) {
	data, err := EncodeEvent(e)
	if err != nil {
		return nil, err
	}
	e.address()
	return publication(ctx, &e, s.Stream(StreamEvents), e.subject(s), data), nil
}

func publication(ctx context.Context, e *Event, stream, subject string, data []byte) *nats.Msg {
	msg := message(ctx, subject, data)
	if e.Traceparent != "" {
		msg.Header["traceparent"] = []string{e.Traceparent}
	}
	msg.Header[jetstream.MsgIDHeader] = []string{string(e.Type) + "/" + e.ID}
	msg.Header[jetstream.ExpectedStreamHeader] = []string{stream}
	return msg
}

// publish repeats until the stream has the event. The server drops repeats within
// its duplicate window, the worker answers later ones with the same reply.
func (c *Client) publish(ctx context.Context, e *Event, subject string, data []byte) (ack *jetstream.PubAck, err error) {
	err = c.retry(ctx, subject, func(ctx context.Context) error {
		ack, err = c.js.PublishMsg(ctx, publication(ctx, e, StreamEvents, subject, data))
		if hopeless(err) {
			return backoff.Permanent(err)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("request %s is not published on %s: %w", e.ID, subject, err)
	}
	return ack, nil
}

// hopeless reports whether the same message would be refused again.
func hopeless(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.ErrorCode == codeMessageTooLarge || api.ErrorCode == codeOtherStream
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed)
}

// retry repeats try, a few seconds each, until it succeeds, gives a
// backoff.Permanent error, ctx ends or the Client is closed. Its error then says
// why and what went wrong last. About is the subject that try publishes to, or its
// beginning.
func (c *Client) retry(ctx context.Context, about string, try func(context.Context) error) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	pauses := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(tryFor), backoff.WithMaxElapsedTime(0))
	var last error
	err := backoff.Retry(func() error {
		attempt, cancel := context.WithTimeout(ctx, tryFor)
		defer cancel()
		err := try(attempt)
		if ctx.Err() == nil {
			last = err
		}
		return err
	}, backoff.WithContext(pauses, ctx))
	if err == nil || ctx.Err() == nil {
		return err
	}
	return errors.Join(cmp.Or(context.Cause(ctx), err), last, c.denied(about))
}

// denied is the server's refusal to let us publish about that. It comes beside the
// request, which only times out.
func (c *Client) denied(about string) error {
	err := c.js.Conn().LastError()
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), about) {
		return err
	}
	return nil
}

// within is ctx, ended also by the end of the Client.
func (c *Client) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { end(context.Cause(c.life)) })
	return ctx, func() { stop(); end(nil) }
}
