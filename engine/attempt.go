package engine

import "context"

type attemptsKey struct{}

// WithAttempts returns a context under which a call that repeats itself tells failed of each
// attempt that it would repeat. An error of failed ends the call, which returns it.
func WithAttempts(ctx context.Context, failed func(error) error) context.Context {
	return context.WithValue(ctx, attemptsKey{}, failed)
}

// AttemptFailed tells the function of WithAttempts, if there is one, of a failed attempt, and
// returns its error.
func AttemptFailed(ctx context.Context, err error) error {
	if failed, is := ctx.Value(attemptsKey{}).(func(error) error); is {
		return failed(err)
	}
	return nil
}
