package reconcile

import (
	"context"
	"fmt"
	"strings"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// noteRefused says of assignments that the ledger does not know whether it has refused
// all requests that they are held for: a worker that paused before it asked Redis, until
// another one had answered, and that died before it noticed, leaves such a one.
func (a *Audit) noteRefused(ctx context.Context, drifts []account.Drift) error {
	for i := range drifts {
		d := &drifts[i]
		if d.Kind != account.RuntimeUnknown {
			continue
		}
		held := map[string]bool{}
		for request := range strings.FieldsSeq(d.Entry.Request) {
			held[request] = true
		}
		d.Refused = len(held) > 0
		err := a.Ledger.OfRuntime(ctx, d.Runtime, func(s events.Stored) error {
			if s.Foreign == nil && s.Reply.Status == events.StatusRejected {
				delete(held, s.Reply.RequestID)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read the replies of %s: %w", d.Runtime, err)
		}
		d.Refused = d.Refused && len(held) == 0
	}
	return nil
}

// takeBack undoes what refused requests hold, rule 11. A refusal stands for ever, and a request that comes again asks
// Redis anew, so that nothing is to be looked at again but the record, which the script does.
func (a *Audit) takeBack(ctx context.Context, d account.Drift) (bool, error) {
	if !d.Refused {
		return false, nil
	}
	for request := range strings.FieldsSeq(d.Entry.Request) {
		if err := a.Repairer.TakeBack(ctx, d.Pool, d.Runtime, request); err != nil {
			return false, err
		}
	}
	return true, nil
}
