package audit

import (
	"context"
	"fmt"
	"strings"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// noteRefused sets Drift.Refused for assignments that the ledger does not know, if it has refused all their
// requests. A worker leaves such an assignment if it pauses before it calls Redis, another worker refuses the
// request meanwhile, and the first one then dies before it reads the refusal.
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

// takeBack undoes the assignment of refused requests (rule 11), and reports whether it did: false unless
// Drift.Refused is set. It need not read the ledger again: a refusal is final, and the script checks the
// record.
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
