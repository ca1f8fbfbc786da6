package audit

import (
	"context"
	"fmt"
	"strings"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// noteRefused sets Drift.Refused for an assignment that the ledger does not know, if the ledger has a
// rejection of each of its requests. A worker leaves such an assignment if it pauses before it calls Redis,
// another worker refuses the request meanwhile, and the first worker then dies before it reads the refusal.
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

// takeBack undoes the assignment of refused requests (rule 11), and returns true, if Drift.Refused is set. It need not
// read the ledger again: a refusal is final, and the script checks that the record still has the request.
func (a *Audit) takeBack(ctx context.Context, d account.Drift) (bool, error) {
	if !d.Refused {
		return false, nil
	}
	for request := range strings.FieldsSeq(d.Entry.Request) {
		if err := a.Repairer.TakeBack(ctx, d.Pool, d.Runtime, request, d.Entry.Tenant); err != nil {
			return false, err
		}
	}
	return true, nil
}
