package integration_test

import (
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/shadows"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// TestMigrateCompare runs the stories of hapctl migrate compare, against comparisons
// that the scripts make.
func TestMigrateCompare(t *testing.T) {
	t.Parallel()
	s := hapctlStack(t, stack.Options{Kube: sharedStack(t).Kube, Config: []byte("gardener: {namespace: garden-compare}\n"), Accounts: []stack.Account{}})
	p := newPublisher(t, s)
	shadow := p.subjects.Shadow()
	at := time.Date(2024, 11, 20, 12, 0, 0, 0, time.UTC)
	decided := func(runtime, binding string) events.Reply {
		r := events.Reply{
			RuntimeID: runtime, RequestID: "req-" + runtime, GlobalAccountID: "ga-1", Plan: "aws", Provider: "aws", Status: events.StatusAssigned,
			Decision: &events.Decision{Sequence: 7, Rule: "aws(PR=cf-eu11) -> EU", RuleNumber: 2, Pool: "aws+eu", Origin: "claimed"},
			Binding:  &events.Binding{Name: binding, Claimed: true},
		}
		if binding == "-" {
			r.Status, r.Binding = events.StatusRejected, nil
			r.Error = &events.ReplyError{Code: engine.CodeNoMatchingRule, Message: "no rule for plan aws"}
		}
		return r
	}
	runHapctl(t, s, "testdata/hapctl-shadow", map[string]func(*testscript.TestScript, bool, []string){
		"streams": func(ts *testscript.TestScript, _ bool, _ []string) {
			_, err := storage.Setup(p.ctx, p.js, storage.Options{Manage: true, Shadow: true})
			ts.Check(err)
		},
		// compared RUNTIME RESULT SHADOW KEB [WHY] stores a comparison as a shadow does.
		"compared": func(ts *testscript.TestScript, _ bool, args []string) {
			c := shadows.Comparison{
				Result: shadows.ComparisonResult(args[1]), Message: "as the script says", ComparedAt: at, Reply: decided(args[0], args[2]),
			}
			if len(args) > 4 {
				c.Message = args[4]
			}
			if args[3] != "-" {
				c.KEB = &shadows.KEBChoice{Shoot: "c-" + args[0], Binding: args[3], Pool: "aws", Tenant: "ga-1"}
			}
			first, err := shadows.NewComparisons(p.js, shadow).Add(p.ctx, c)
			ts.Check(err)
			if !first {
				ts.Fatalf("%s is compared already", args[0])
			}
		},
		// pending RUNTIME BINDING stores a decision that is not compared yet.
		"pending": func(ts *testscript.TestScript, _ bool, args []string) {
			r := decided(args[0], args[1])
			_, err := storage.NewLedger(p.js, shadow, "/test").Publish(p.ctx, shadow.Reply(r.RuntimeID, r.RequestID), r, 0)
			ts.Check(err)
		},
	})
}
