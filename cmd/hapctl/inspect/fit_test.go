package inspect

import (
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

const (
	longRuntime = "8f2b4c1e-77aa-4c9e-9d10-3f6d2b7c5a01"
	longTenant  = "0e6a1f04-5d3c-4b7e-8a55-c2d9f1b3e870"
)

// longLists are all lists of the present state, with names as long as in practice.
func longLists() map[string]cli.View {
	b := engine.Binding{Name: "sb-aws-000123", HyperscalerType: "aws_cf-eu11", EUAccess: true, Tenant: "another-tenant-with-a-long-name", Dirty: true, Generation: 3}
	rec := account.Record{State: account.InUse, Tenant: longTenant, Generation: 2, Confirmed: true, Count: 123}
	account := view.NewBinding(view.Place{Pool: b.Pool().Name(), Binding: b.Name}, &b, &rec, view.Terms{})
	account.Limit = 180
	runtime := runtimeView{RuntimeID: longRuntime, State: "assigned", Pool: "aws_cf-eu11+eu", Binding: "sb-aws-000123", Tenant: longTenant, Sequence: 123456, RequestID: longRuntime}
	now := time.Now()
	return map[string]cli.View{
		"bindings": bindingList{[]view.Binding{account}},
		"binding":  bindingDetail{Binding: account, Runtimes: []runtimeView{runtime}},
		"runtimes": runtimeList{[]runtimeView{runtime}},
		"waiting": waitingList{[]waitingView{{
			Pool: "aws_cf-eu11+eu", Position: 12345, RuntimeID: longRuntime, RequestID: longRuntime, Tenant: longTenant,
			Reason: events.WaitingNetworkMissing, Since: now.Add(-300 * cli.Day), Deadline: now.Add(50 * time.Hour), Behind: []waiterView{},
		}}},
		"tenant": tenantFinding{Tenant: longTenant, Requests: []explained{{ledgerReply: ledgerReply{StoredAt: now, Reply: events.Reply{
			RequestID: longRuntime, RuntimeID: longRuntime, Status: events.StatusAssigned, Binding: &events.Binding{Name: "sb-aws-000123"},
		}}}, {ledgerReply: ledgerReply{StoredAt: now, Reply: events.Reply{
			RequestID: longRuntime, RuntimeID: longRuntime, Status: events.StatusRejected, Error: &events.ReplyError{Code: engine.CodeNetworkExhausted},
		}}}}, Searches: []searched{
			{Stream: events.StreamReplies, Messages: 12345678, From: now, Bounded: true}, {Stream: events.StreamReplies, Messages: 12345678, older: true},
		}},
		"account": accountFinding{bindingDetail: bindingDetail{Binding: account}, Timeline: []moment{{
			At: now, Tenant: longTenant, RuntimeID: longRuntime, Text: "refused: NetworkExhausted",
		}}, Left: 1234},
	}
}

// TestListsFitATerminal holds the lists of this package to a terminal's width.
func TestListsFitATerminal(t *testing.T) {
	t.Parallel()
	for name, v := range longLists() {
		clitest.FitsATerminal(t, name, v.Show)
	}
}
