package loop

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Backoff describes exponential pauses between attempts, with factor 1.5 and a random deviation of up to 50 %
// (jitter). The zero value means no backoff.
type Backoff struct {
	First time.Duration
	Most  time.Duration
}

// pauses returns the pauses, without a bound on their number; nil for the zero Backoff.
func (b Backoff) pauses() *backoff.ExponentialBackOff {
	if b == (Backoff{}) {
		return nil
	}
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(b.First), backoff.WithMaxInterval(b.Most), backoff.WithMaxElapsedTime(0))
}

// Retry calls do until it succeeds. Before each pause it calls failed, which may be nil. b must not be zero.
// It returns the error that do wraps in [Permanent], or an error once ctx has ended.
func Retry(ctx context.Context, b Backoff, do func() error, failed func(err error, after time.Duration)) error {
	return backoff.RetryNotify(do, backoff.WithContext(b.pauses(), ctx), failed)
}

// Permanent wraps err so that Retry returns it without another attempt.
func Permanent(err error) error { return backoff.Permanent(err) }
