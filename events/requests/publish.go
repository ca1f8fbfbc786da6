package requests

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
)

// tryFor bounds one attempt of an operation that is retried until ctx ends.
const tryFor = 5 * time.Second

// JetStream's error codes for a message that it would refuse again.
const (
	codeMessageTooLarge = 10054
	codeOtherStream     = 10060
)

// message returns the NATS message that publishes an event. It carries the trace of ctx unless the
// event has one.
func (c *Client) message(ctx context.Context, e events.Event) (*nats.Msg, error) {
	if e.Traceparent == "" && c.options.Trace != nil {
		e.Traceparent, e.Tracestate = c.options.Trace(ctx)
	}
	return events.Publication(c.subjects, e)
}

// publish retries until the stream has the message, ctx or the Client ends, or the error is hopeless.
// The server drops repeats within its duplicate window; workers answer later ones with the same reply.
// stored is true if the stream may have the event already: then no error says that it is not published.
func (c *Client) publish(ctx context.Context, id string, msg *nats.Msg, stored bool) (ack *jetstream.PubAck, err error) {
	unsure := false // an attempt may have stored it
	err = c.retry(ctx, msg.Subject, func(ctx context.Context) error {
		sent := ctx.Err() == nil
		ack, err = c.js.PublishMsg(ctx, msg)
		unsure = unsure || sent && !refused(err)
		if hopeless(err) {
			return backoff.Permanent(err)
		}
		return streams.Explained(msg.Header.Get(jetstream.ExpectedStreamHeader), msg.Subject, err)
	})
	switch {
	case err == nil:
		return ack, nil
	case stored || unsure && !errors.Is(err, nats.ErrPermissionViolation):
		return nil, fmt.Errorf("request %s may be published on %s or not, ask again under the same id: %w", id, msg.Subject, err)
	}
	return nil, fmt.Errorf("request %s is not published on %s: %w", id, msg.Subject, err)
}

// publishAnew publishes a message that the server called a duplicate once more, under a random message
// id. A duplicate is no proof that the stream has the event: another publisher may have used the
// predictable id for another message.
func (c *Client) publishAnew(ctx context.Context, id string, msg *nats.Msg) error {
	header := maps.Clone(msg.Header)
	header[jetstream.MsgIDHeader] = []string{msg.Header.Get(jetstream.MsgIDHeader) + "/" + rand.Text()}
	_, err := c.publish(ctx, id, &nats.Msg{Subject: msg.Subject, Header: header, Data: msg.Data}, true)
	return err
}

// refused reports whether an attempt failed without storing the message: the server said so, no stream has the
// subject, or the message was too large to be sent.
func refused(err error) bool {
	_, api := errors.AsType[*jetstream.APIError](err)
	return api || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrMaxPayload)
}

// hopeless reports whether publishing the same message would fail again: it is too large, its subject belongs to
// another stream, or the connection is closed.
func hopeless(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.ErrorCode == codeMessageTooLarge || api.ErrorCode == codeOtherStream
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed)
}

// retry calls try, for at most tryFor each, until it succeeds or returns a backoff.Permanent error,
// ctx ends, or the Client is closed. In the last two cases the error joins the cause, the last failure and what
// denied returns. about is the subject that try publishes to, or its prefix.
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

// denied returns the connection's last error if it is a permission violation that names the subject or prefix
// about, otherwise nil. The server reports it asynchronously: the request itself only times out. A violation by
// CONSUMER.DELETE is left out: the library tries to delete a consumer that it replaces, which no publisher needs.
func (c *Client) denied(about string) error {
	err := c.js.Conn().LastError()
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), about) && !strings.Contains(err.Error(), ".CONSUMER.DELETE.") {
		return err
	}
	return nil
}

// within returns a context that ends with ctx or with the Client.
func (c *Client) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { end(context.Cause(c.life)) })
	return ctx, func() { stop(); end(nil) }
}
