package gardener

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hap-worker/hap-worker/engine"
)

// verdict says what a failed request means.
type verdict int

const (
	again    verdict = iota // not served; the same request may be sent again
	unknown                 // a write that may have taken place
	conflict                // the object has changed since
	missing                 // the object is not there
	refused                 // the API is not there, or not for us
	barred                  // a write that is not allowed on this object
	expired                 // the rest of a list is forgotten
	invalid                 // the server does not accept such a request
)

// read repeats call until it succeeds, fails for good, or the budget is spent.
func (c *Client) read(ctx context.Context, op string, call func(context.Context) error) error {
	return c.repeat(ctx, op, call, false)
}

// write repeats call only where it is certain that nothing was written (429, no
// connection was made, or the admission did not come to look), which leaves the resourceVersion in it as good as it
// was. Whatever else happens goes back to the caller, because between a write
// and its repetition the caller has to read and ask for permission again
// (docs/protocol.md, rule 2).
func (c *Client) write(ctx context.Context, op string, call func(context.Context) error) error {
	return c.repeat(ctx, op, call, true)
}

func (c *Client) repeat(ctx context.Context, op string, call func(context.Context) error, write bool) error {
	op = "gardener: " + op
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w: %s was not asked: %w", op, engine.ErrUnavailable, c.Server(), context.Cause(ctx))
	}
	pause := &pauses{ExponentialBackOff: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second),
		backoff.WithMaxElapsedTime(c.opts.Budget))}
	pause.until, pause.limited = ctx.Deadline()
	var last, answered, stop error
	err := backoff.Retry(func() error {
		last = call(ctx)
		if last == nil {
			return nil
		}
		if ctx.Err() == nil {
			answered = last
		}
		if judge(last, write) != again {
			return backoff.Permanent(last)
		}
		if !limited(last) {
			if stop = engine.AttemptFailed(ctx, named(op, again, last)); stop != nil {
				return backoff.Permanent(stop)
			}
		}
		pause.least = retryAfter(last)
		return last
	}, backoff.WithContext(pause, ctx))
	if err == nil || stop != nil {
		return stop
	}
	verdict := judge(last, write)
	if ctx.Err() != nil { // what the attempts before were told says more than that the last one had no time
		last = fmt.Errorf("%w; %w", cmp.Or(answered, last), context.Cause(ctx))
	}
	return named(op, verdict, last)
}

// pauses are those between attempts: exponential, never shorter than the server
// wants it, and none that would end after the caller's deadline.
type pauses struct {
	*backoff.ExponentialBackOff
	least   time.Duration
	until   time.Time
	limited bool
}

func (p *pauses) NextBackOff() time.Duration {
	d := p.ExponentialBackOff.NextBackOff()
	if d == backoff.Stop {
		return d
	}
	d = max(d, p.least)
	if p.GetElapsedTime()+d > p.MaxElapsedTime || p.limited && time.Until(p.until) < d {
		return backoff.Stop
	}
	return d
}

// judge says what err means. A write is certain to have had no effect only if
// the server said so or if no server heard it.
func judge(err error, write bool) verdict {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		if write && !unheard(err) {
			return unknown
		}
		return again
	}
	switch code := int(status.Status().Code); {
	case code == http.StatusConflict:
		return conflict
	case code == http.StatusTooManyRequests, write && code == http.StatusForbidden && unlooked(status):
		return again
	case code == http.StatusNotFound && ofObject(status):
		return missing
	case write && ofObject(status) && (code == http.StatusForbidden || code == http.StatusUnprocessableEntity):
		return barred
	case code == http.StatusNotFound, code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusNotAcceptable:
		return refused
	case code == http.StatusGone:
		return expired
	case code >= 500 || code < 400:
		if write {
			return unknown
		}
		return again
	default:
		return invalid
	}
}

// ofObject tells an answer about an object from one about its API: only the first
// names the object.
func ofObject(status apierrors.APIStatus) bool {
	details := status.Status().Details
	return details != nil && details.Name != ""
}

// limited reports whether a server that serves wants to be asked later.
func limited(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && (status.Status().Code == http.StatusTooManyRequests || unlooked(status))
}

// noLook is the message of an admission plugin that has not come to look at the object:
// it waits for its caches, or in the queue of a client that limits itself. Such an
// answer names the object and has the reason Forbidden, as a lasting one has; only
// the words differ.
var noLook = []string{
	"client rate limiter Wait returned an error", // k8s.io/client-go/rest
	"not yet ready to handle request",            // k8s.io/apiserver/pkg/admission, and Gardener's plugins
}

// unlooked tells a refusal of the moment, before which nothing was looked at nor
// written, from one because of what the object is.
func unlooked(status apierrors.APIStatus) bool {
	message := status.Status().Message
	return slices.ContainsFunc(noLook, func(said string) bool { return strings.Contains(message, said) })
}

// unheard reports whether no connection was made, so that the request cannot
// have reached anybody.
func unheard(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// expected reports whether a failure of the watch is part of its normal life.
func expected(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) ||
		apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// retryAfter is when the server wants the request again, by header or body.
func retryAfter(err error) time.Duration {
	after := suggestedDelay(err)
	if answer := (*answerError)(nil); errors.As(err, &answer) {
		after = max(after, answer.after)
	}
	return after
}

// judgedError is a failure that the caller can act upon: as is one of the
// errors of package engine, err what the server or the network said.
type judgedError struct {
	op  string
	as  error
	err error
}

func (e *judgedError) Error() string   { return fmt.Sprintf("%s: %v: %v", e.op, e.as, e.err) }
func (e *judgedError) Unwrap() []error { return []error{e.as, e.err} }

var (
	errMissing = &engine.Error{Code: engine.CodeUnknownBinding, Err: errors.New("there is no such binding"), Hint: "see hapctl bindings for those that exist"}
	errInvalid = &engine.Error{Code: engine.CodeInternal, Err: errors.New("the API does not accept the request")}
)

func named(op string, v verdict, err error) error {
	as := error(errInvalid)
	switch v {
	case again, refused:
		as = engine.ErrUnavailable
	case barred:
		as = engine.ErrRefused
	case unknown:
		as = engine.ErrUnknownResult
	case conflict:
		as = engine.ErrConflict
	case missing:
		as = errMissing
	case expired:
		as = engine.ErrUnavailable
	case invalid:
	}
	return &judgedError{op, as, err}
}
