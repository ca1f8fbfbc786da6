package audit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/observe"
)

var errDown = errors.New("down")

// downRepairer cannot put runtimes back.
type downRepairer struct{ audit.Repairer }

func (downRepairer) Locate(context.Context, string, string) (account.Place, error) {
	return account.Place{}, errDown
}

// A repair that fails does not make the audit a failure: what it found is known.
func TestFailedRepair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, a := newPassage(t)
		p.answered("rt-1", 1)
		a.Repairer = downRepairer{a.Repairer}
		ctx, stop := context.WithCancel(t.Context())
		var told observe.Drift
		auditor := audit.Auditor{
			Audit: a, Settings: func() (time.Duration, bool) { return time.Minute, true },
			Observer: observe.Observer{OnDrift: func(_ context.Context, d observe.Drift) { told = d; stop() }},
		}
		auditor.Run(ctx)
		if len(told.Found) == 0 || told.Err != nil || !errors.Is(told.RepairErr, errDown) {
			t.Errorf("told is %+v", told)
		}
	})
}
