package engine

import "context"

type attemptsKey struct{}

// WithAttempts returns a context with the callback failed. A call passes to it the error of each attempt that
// may be retried, except if a working server only asked to repeat the request later. If failed returns an
// error, the call does not retry and returns that error.
func WithAttempts(ctx context.Context, failed func(error) error) context.Context {
	return context.WithValue(ctx, attemptsKey{}, failed)
}

// AttemptFailed calls the callback of WithAttempts with err, and returns its error. It returns nil if ctx has
// no callback.
func AttemptFailed(ctx context.Context, err error) error {
	if failed, is := ctx.Value(attemptsKey{}).(func(error) error); is {
		return failed(err)
	}
	return nil
}
