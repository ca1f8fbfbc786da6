package loop

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Backoff are the pauses between attempts: each is half as long again as the one
// before and varies by half, so that processes drift apart. The zero value is none.
type Backoff struct {
	First time.Duration
	Most  time.Duration
}

// pauses never end by themselves; nil for the zero Backoff.
func (b Backoff) pauses() *backoff.ExponentialBackOff {
	if b == (Backoff{}) {
		return nil
	}
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(b.First), backoff.WithMaxInterval(b.Most), backoff.WithMaxElapsedTime(0))
}

// Retry calls do until it succeeds, and failed, which may be nil, before each pause of
// b, which is not zero.
// Errors: what do wrapped in [Permanent]; ctx's.
func Retry(ctx context.Context, b Backoff, do func() error, failed func(err error, after time.Duration)) error {
	return backoff.RetryNotify(do, backoff.WithContext(b.pauses(), ctx), failed)
}

// Permanent makes err one that no other attempt would change: Retry returns it.
func Permanent(err error) error { return backoff.Permanent(err) }
