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

// The first audit does not wait for a long interval, and is not made where the interval is 0.
func TestFirstAudit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		every  time.Duration
		within time.Duration
		audits int
	}{
		{24 * time.Hour, 5 * time.Minute, 0},
		{24 * time.Hour, 12 * time.Minute, 1},
		{24 * time.Hour, 24 * time.Hour, 1},
		{24 * time.Hour, 27 * time.Hour, 2},
		{time.Minute, 150 * time.Second, 2},
		{0, 48 * time.Hour, 0},
	} {
		t.Run(c.every.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, a := newPassage(t)
				audits := 0
				auditor := audit.Auditor{
					Audit: a, Settings: func() (time.Duration, bool) { return c.every, false },
					Observer: observe.Observer{OnDrift: func(context.Context, observe.Drift) { audits++ }},
				}
				ctx, stop := context.WithTimeout(t.Context(), c.within)
				defer stop()
				auditor.Run(ctx)
				if audits != c.audits {
					t.Errorf("%d audits within %s, not %d", audits, c.within, c.audits)
				}
			})
		})
	}
}
