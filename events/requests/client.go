// Package requests publishes requests and returns their final replies: a publisher imports its
// Client.
package requests

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
)

// ErrForeignReply is the error of a request whose id another request has used: for another global
// account, or of another type. The stored reply is that of the other request, and is not returned. The
// error's contract.CodeOf is CodeInvalidEvent.
var ErrForeignReply error = &contract.Error{
	Code: contract.CodeInvalidEvent, Err: errors.New("the request id is that of another request"),
	Hint: "ask again under a new id",
}

// ErrClientClosed is the error of requests that wait when the Client is closed, and of later requests.
var ErrClientClosed = errors.New("the events client is closed")

// ClientOptions are the settings of a Client.
type ClientOptions struct {
	// Source is the CloudEvents source of published events, a URI reference such
	// as /kyma-environment-broker. Required.
	Source string
	// Prefix of the subjects. Defaults to events.DefaultPrefix.
	Prefix string
	// LookAfter is how long Ask waits for a new reply before the Client looks for a reply that was stored
	// earlier; Await has the Client look at once. The Client looks again after pauses of LookAfter at first,
	// then doubled up to 30 s. Defaults to 1 s.
	LookAfter time.Duration
	// Trace returns the trace of a request's context, by W3C Trace Context; "" if it has none. docs/clients.md
	// has it for OpenTelemetry. It is not called for an event that has a Traceparent. If Trace is nil, a
	// published event has only the trace in its fields.
	Trace func(context.Context) (traceparent, tracestate string)
}

// Client publishes requests and returns their final replies. It is safe for concurrent use, and
// survives reconnects of its connection. A reply that was stored while no Client ran is not lost: Ask
// again under the same id, or Await it.
//
// It needs the permission to publish on its events' subjects and, on the stream HAP_REPLIES, to create
// consumers, to pull from them and to read the stream's info.
type Client struct {
	js       jetstream.JetStream
	subjects events.Subjects
	options  ClientOptions

	life   context.Context // ended by Close, or with the connection
	end    context.CancelCauseFunc
	starts chan struct{} // a semaphore of one for follow
	broken chan struct{} // holds a token after an error of the consumer of all replies
	due    chan struct{} // holds a token while looks are due
	joined sync.WaitGroup

	mu        sync.Mutex
	waiters   map[string][]*waiter     // by reply subject
	following jetstream.ConsumeContext // nil before the first request, and after a loss until the Client follows again
	created   time.Time                // of the stream that is followed
	from      uint64                   // the sequence from which the stream was last followed
	newest    jetstream.Msg            // the last message that arrived from there on, nil before the first one
	looks     []look                   // that are due
}

// NewClient returns a Client that uses the connection. It sends nothing to the server yet. The caller
// closes the connection after the Client. The connection should have nats.MaxReconnects(-1).
func NewClient(nc *nats.Conn, options ClientOptions) (*Client, error) {
	if options.Source == "" {
		return nil, errors.New("events client: Source is required: who publishes, such as /kyma-environment-broker")
	}
	if options.LookAfter < 0 {
		return nil, fmt.Errorf("events client: LookAfter is %s, must not be negative", options.LookAfter)
	}
	if options.LookAfter == 0 {
		options.LookAfter = time.Second
	}
	subjects, err := events.NewSubjects(options.Prefix)
	if err != nil {
		return nil, fmt.Errorf("events client: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("events client: %w", err)
	}
	c := &Client{
		js: js, subjects: subjects, options: options,
		starts: make(chan struct{}, 1), broken: make(chan struct{}, 1), due: make(chan struct{}, 1), waiters: map[string][]*waiter{},
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.joined.Go(c.watchConnection)
	c.joined.Go(c.watchReplies)
	c.joined.Go(c.takeLooks)
	return c, nil
}

// Close ends all waiting requests with ErrClientClosed. Published events stay published. Closing twice
// is fine.
func (c *Client) Close() {
	c.end(ErrClientClosed)
	c.joined.Wait()
	c.unfollow()
}

// watchConnection ends the Client when its connection is closed.
func (c *Client) watchConnection() {
	nc := c.js.Conn()
	closed := nc.StatusChanged(nats.CLOSED)
	defer nc.RemoveStatusListener(closed)
	if nc.IsClosed() {
		c.end(nats.ErrConnectionClosed)
		return
	}
	select {
	case <-closed:
		c.end(nats.ErrConnectionClosed)
	case <-c.life.Done():
	}
}

// RequestOption changes how one request is made.
type RequestOption func(*request)

type request struct{ waiting func(events.Reply) }

// OnWaiting sets a function that is called with `waiting` replies, in the goroutine of the request. It does not get
// one that a later reply replaces at once.
func OnWaiting(f func(events.Reply)) RequestOption { return func(r *request) { r.waiting = f } }

// Provision requests what a runtime needs and waits for the final reply. The request id makes it
// idempotent: every repeat under the same id gets the same reply.
//
// Errors: *Rejected, which carries the reply, and whose code contract.CodeOf returns; an *contract.Error
// with CodeInvalidEvent for an event that a worker would refuse, which is not published;
// ErrForeignReply; events.ErrUnknownReply for a reply that may be the final one of a newer version; an error
// of NATS for a message that it would refuse again, such as one that is too large; ctx's
// cause if ctx ends, ErrClientClosed if the Client is closed, nats.ErrConnectionClosed if its connection
// is closed. With the last three, the request may still be in progress, and the reply is the latest
// `waiting` one, if there is one.
func (c *Client) Provision(ctx context.Context, id string, p events.Provision, options ...RequestOption) (events.Reply, error) {
	return c.Ask(ctx, events.Event{Type: events.TypeProvision, ID: id, Provision: &p}, options...)
}

// Deprovision frees what a runtime has and waits for the final reply. The reply for an unknown runtime
// is StatusReleased, too. Errors as for Provision.
func (c *Client) Deprovision(ctx context.Context, id string, d events.Deprovision, options ...RequestOption) (events.Reply, error) {
	return c.Ask(ctx, events.Event{Type: events.TypeDeprovision, ID: id, Deprovision: &d}, options...)
}

// Release returns an emptied account to its pool and waits for the final reply. Errors as for Provision.
func (c *Client) Release(ctx context.Context, id string, r events.Release, options ...RequestOption) (events.Reply, error) {
	return c.Ask(ctx, events.Event{Type: events.TypeRelease, ID: id, Release: &r}, options...)
}

// Resolve asks for the implementation of an interface and waits for the final
// reply. Errors as for Provision.
func (c *Client) Resolve(ctx context.Context, id string, r events.Resolve, options ...RequestOption) (events.Reply, error) {
	return c.Ask(ctx, events.Event{Type: events.TypeResolve, ID: id, Resolve: &r}, options...)
}

// Await waits for the final reply to a request for a runtime that was published before, perhaps
// by another process. It does not compare the reply with the request, so it never returns ErrForeignReply.
// Other errors as for Provision.
func (c *Client) Await(ctx context.Context, runtimeID, requestID string, options ...RequestOption) (events.Reply, error) {
	if err := events.CheckReply(runtimeID, requestID); err != nil {
		return events.Reply{}, err
	}
	return c.awaitOn(ctx, c.subjects.Reply(runtimeID, requestID), requestID, options)
}

// AwaitRelease is Await for the release of a binding.
func (c *Client) AwaitRelease(ctx context.Context, binding, requestID string, options ...RequestOption) (events.Reply, error) {
	if err := events.CheckBindingReply(binding, requestID); err != nil {
		return events.Reply{}, err
	}
	return c.awaitOn(ctx, c.subjects.BindingReply(binding, requestID), requestID, options)
}

// Publish publishes an event and returns when the stream has it, without waiting
// for a reply. It sets e.Source to the Client's.
func (c *Client) Publish(ctx context.Context, e events.Event) error {
	e.Source = c.options.Source
	msg, err := c.message(ctx, e)
	if err != nil {
		return err
	}
	ack, err := c.publish(ctx, e.ID, msg, false)
	if err != nil || !ack.Duplicate {
		return err
	}
	return c.publishAnew(ctx, e.ID, msg)
}

// Ask publishes an event of any type and waits for the final reply. It sets e.Source to the
// Client's. Errors as for Provision.
func (c *Client) Ask(ctx context.Context, e events.Event, options ...RequestOption) (events.Reply, error) {
	e.Source = c.options.Source
	msg, err := c.message(ctx, e)
	if err != nil {
		return events.Reply{}, err
	}
	e = e.Addressed()
	w, err := c.wait(ctx, e.ReplySubject(c.subjects), e.ID, options)
	if err != nil {
		return events.Reply{}, err
	}
	defer c.leave(w)
	w.event = &e
	ack, err := c.publish(ctx, e.ID, msg, false)
	if err != nil {
		return events.Reply{}, err
	}
	if ack.Duplicate { // asked before: the answer may be there
		select {
		case <-c.lookSoon(w):
		case <-ctx.Done():
		case <-c.life.Done():
		}
		if !w.answered() {
			if err := c.publishAnew(ctx, e.ID, msg); err != nil {
				return events.Reply{}, err
			}
		}
	}
	return c.await(ctx, w, c.options.LookAfter)
}

func (c *Client) awaitOn(ctx context.Context, subject, id string, options []RequestOption) (events.Reply, error) {
	w, err := c.wait(ctx, subject, id, options)
	if err != nil {
		return events.Reply{}, err
	}
	defer c.leave(w)
	return c.await(ctx, w, 0)
}

// Rejected is the error of a request whose final reply is a rejection.
type Rejected struct{ Reply events.Reply }

// Error returns code and message.
func (r *Rejected) Error() string {
	return fmt.Sprintf("request %s is rejected: %s: %s", r.Reply.RequestID, r.Reply.Error.Code, r.Reply.Error.Message)
}

// Unwrap returns the *contract.Error, so that contract.CodeOf works.
func (r *Rejected) Unwrap() error {
	return &contract.Error{Code: r.Reply.Error.Code, Err: errors.New(r.Reply.Error.Message)}
}

// Retryable reports whether the same request may succeed later under a new id.
func (r *Rejected) Retryable() bool { return r.Reply.Error.Retryable }
