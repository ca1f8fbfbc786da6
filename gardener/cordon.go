package gardener

import (
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/engine"
)

// Cordon excludes a binding from new assignments or, if on is false, ends that. changed is false if the
// binding had the wanted state already, before any write. With an error it means nothing. After a conflict
// or an unknown result Cordon reads and writes again, until ctx ends, and then returns that error. Other
// errors: engine.CodeUnknownBinding, engine.ErrUnavailable.
func (c *Client) Cordon(ctx context.Context, name string, on bool) (b engine.Binding, changed bool, err error) {
	value := any(nil)
	if on {
		value = "true"
	}
	for {
		b, err = c.Get(ctx, name)
		if err != nil || b.Cordoned == on {
			return b, changed, err
		}
		changed = true
		b, err = c.patch(ctx, "cordon", b, change{labels: fields{LabelCordon: value}})
		again := errors.Is(err, engine.ErrConflict) || errors.Is(err, engine.ErrUnknownResult)
		if !again || ctx.Err() != nil {
			return b, err == nil, err
		}
	}
}
