package gardener

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/hap-worker/hap-worker/engine"
)

// Cordon excludes a binding from new assignments or, if on is false, ends that. changed is false if the
// binding had the wanted state already, before any write. With an error, b and changed mean nothing. After a
// conflict or an unknown result Cordon reads and writes again, after a pause. If ctx ends first, it returns the
// error of the write. Other errors: engine.CodeUnknownBinding, engine.ErrUnavailable.
func (c *Client) Cordon(ctx context.Context, name string, on bool) (b engine.Binding, changed bool, err error) {
	value := any(nil)
	if on {
		value = "true"
	}
	err = rewrite(ctx, func() (done bool, err error) {
		b, err = c.Get(ctx, name)
		return b.Cordoned == on, err
	}, func() (err error) {
		changed = true
		b, err = c.patch(ctx, "cordon", b, change{labels: fields{LabelCordon: value}})
		return err
	})
	return b, changed, err
}

// rewrite calls read and, unless read returns done or an error, write. After a conflict or an unknown result of
// write it pauses and calls both again. If ctx has ended, it returns the error of the last write, or of the read
// if there was no write.
func rewrite(ctx context.Context, read func() (done bool, err error), write func() error) error {
	pauses := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
	var written error
	for {
		done, err := read()
		switch {
		case err != nil && ctx.Err() != nil:
			return cmp.Or(written, err)
		case err != nil || done:
			return err
		}
		written = write()
		if !errors.Is(written, engine.ErrConflict) && !errors.Is(written, engine.ErrUnknownResult) {
			return written
		}
		select {
		case <-ctx.Done():
			return written
		case <-time.After(pauses.NextBackOff()):
		}
	}
}
