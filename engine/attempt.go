package engine

import "context"

type attemptsKey struct{}

// WithAttempts returns a context with the callback failed. A call that retries passes each error that it
// would retry to failed. If failed returns an error, the call stops and returns that error.
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
