package gardener

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener/verdict"
)

// read repeats call until it succeeds or fails in a way that a repeat cannot help (any verdict but Again),
// the budget is spent, ctx ends, or the callback of engine.WithAttempts returns an error.
func (c *Client) read(ctx context.Context, op string, call func(context.Context) error) error {
	return c.repeat(ctx, op, call, false)
}

// write repeats call only if certainly nothing was written: after 429, without a connection, or if an
// admission plugin refused before it looked. The resourceVersion in the call is then still valid. Any
// other failure returns to the caller, which has to read and ask for permission again before it
// repeats a write (docs/protocol.md, rule 2).
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
	pause.again = func() bool {
		if !verdict.Limited(last) {
			stop = engine.AttemptFailed(ctx, named(op, verdict.Again, last))
		}
		return stop == nil
	}
	err := backoff.Retry(func() error {
		last = call(ctx)
		if last == nil {
			return nil
		}
		if ctx.Err() == nil {
			answered = last
		}
		if verdict.Of(last, write) != verdict.Again {
			return backoff.Permanent(last)
		}
		pause.least = retryAfter(last)
		return last
	}, backoff.WithContext(pause, ctx))
	if err == nil || stop != nil {
		return stop
	}
	of := verdict.Of(last, write)
	if ctx.Err() != nil { // an earlier answer says more than the last attempt's time-out
		last = fmt.Errorf("%w; %w", cmp.Or(answered, last), context.Cause(ctx))
	}
	return named(op, of, last)
}

// pauses computes the pauses between attempts: exponential, and at least as long as the server asks
// for. It stops instead of a pause that would end after the budget or the caller's deadline, or if again returns false.
type pauses struct {
	*backoff.ExponentialBackOff
	again   func() bool // counts an attempt that is to be repeated, and reports whether it may be; callers count the last
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
	if p.GetElapsedTime()+d > p.MaxElapsedTime || p.limited && time.Until(p.until) < d || !p.again() {
		return backoff.Stop
	}
	return d
}

// retryAfter returns how long the server asks to wait before a repeat, by header or body; 0 if it does
// not say.
func retryAfter(err error) time.Duration {
	after := verdict.Delay(err)
	if answer := (*answerError)(nil); errors.As(err, &answer) {
		after = max(after, answer.after)
	}
	return after
}

var (
	errMissing = &engine.Error{Code: engine.CodeUnknownBinding, Err: errors.New("there is no such binding"), Hint: "see hapctl bindings for those that exist"}
	errInvalid = &engine.Error{Code: engine.CodeInternal, Err: errors.New("the API does not accept the request")}
)

func named(op string, v verdict.Verdict, err error) error {
	as := error(errInvalid)
	switch v {
	case verdict.Again, verdict.Refused:
		as = engine.ErrUnavailable
	case verdict.Barred:
		as = engine.ErrRefused
	case verdict.Unknown:
		as = engine.ErrUnknownResult
	case verdict.Conflict:
		as = engine.ErrConflict
	case verdict.Missing:
		as = errMissing
	case verdict.Expired:
		as = engine.ErrUnavailable
	case verdict.Invalid:
	}
	return &verdict.Error{Op: op, As: as, Err: err}
}
