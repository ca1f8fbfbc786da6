package operator

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

const (
	longRuntime = "8f2b4c1e-77aa-4c9e-9d10-3f6d2b7c5a01"
	longTenant  = "0e6a1f04-5d3c-4b7e-8a55-c2d9f1b3e870"
)

// longLists are the lists of the present state, with names as long as they are in practice.
func longLists() map[string]view {
	b := engine.Binding{Name: "sb-aws-000123", HyperscalerType: "aws_cf-eu11", EUAccess: true, Tenant: "another-tenant-with-a-long-name", Dirty: true, Generation: 3}
	rec := account.Record{State: account.InUse, Tenant: longTenant, Generation: 2, Confirmed: true, Count: 123}
	account := newBindingView(place{b.Pool().Name(), b.Name}, &b, &rec, terms{})
	account.Limit = 180
	runtime := runtimeView{RuntimeID: longRuntime, State: "assigned", Pool: "aws_cf-eu11+eu", Binding: "sb-aws-000123", Tenant: longTenant, Sequence: 123456, RequestID: longRuntime}
	now := time.Now()
	return map[string]view{
		"bindings": bindingList{[]bindingView{account}},
		"binding":  bindingDetail{bindingView: account, Runtimes: []runtimeView{runtime}},
		"runtimes": runtimeList{[]runtimeView{runtime}},
		"waiting": waitingList{[]waitingView{{
			Pool: "aws_cf-eu11+eu", Position: 12345, RuntimeID: longRuntime, RequestID: longRuntime, Tenant: longTenant,
			Reason: events.WaitingNetworkMissing, Since: now.Add(-300 * day), Deadline: now.Add(50 * time.Hour), Behind: []waiterView{},
		}}},
		"letters": letterList{[]letterView{{Number: 123456, StoredAt: now, Type: "deprovision", RequestID: longRuntime, RuntimeID: longRuntime, Code: engine.CodeNoMatchingRule}}},
		"foreign": foreignList{[]foreignView{{Stream: events.StreamReplies, Sequence: 123456, StoredAt: now, Bytes: 12345, Subject: "hap.v1.reply." + longRuntime + "." + longRuntime}}},
		"tenant": tenantFinding{Tenant: longTenant, Requests: []explained{{ledgerReply: ledgerReply{StoredAt: now, Reply: events.Reply{
			RequestID: longRuntime, RuntimeID: longRuntime, Status: events.StatusAssigned, Binding: &events.Binding{Name: "sb-aws-000123"},
		}}}}},
		"account": accountFinding{bindingDetail: bindingDetail{bindingView: account}, Timeline: []moment{{
			At: now, Tenant: longTenant, RuntimeID: longRuntime, Text: "emptied, marked dirty",
		}}},
	}
}

// TestListsFitATerminal: tables have at most 80 columns, with the beginnings of what is
// longer; in the wide form nothing is cut.
func TestListsFitATerminal(t *testing.T) {
	t.Parallel()
	for name, v := range longLists() {
		var narrow, wide bytes.Buffer
		v.show(&narrow, false)
		for line := range strings.Lines(narrow.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > lineWidth {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		v.show(&wide, true)
		if strings.Contains(wide.String(), "…") || !strings.Contains(narrow.String(), "…") {
			t.Errorf("%s: narrow\n%s\nwide\n%s", name, &narrow, &wide)
		}
	}
}

// TestWhatIsShortened: the columns that are named, in this order, and none below what tells
// two names apart.
func TestWhatIsShortened(t *testing.T) {
	t.Parallel()
	header := []string{"NAME", "SHORT", "FIRST", "SECOND"}
	long := strings.Repeat("n", 40)
	for _, c := range []struct {
		name, first, second string
		want                string
	}{
		{"n", "f", "s", "n     -      f      s\n"},
		{long, strings.Repeat("f", 20), "s", long + "  -      " + strings.Repeat("f", 20) + "  s\n"},
		{long, strings.Repeat("f", 20), strings.Repeat("s", 12), long + "  -      " + strings.Repeat("f", 16) + "…  " + strings.Repeat("s", 12) + "\n"},
		{long, strings.Repeat("f", 20), strings.Repeat("s", 40), long + "  -      ffffffff…  " + strings.Repeat("s", 19) + "…\n"},
		{strings.Repeat("n", 70), strings.Repeat("f", 20), strings.Repeat("s", 40), strings.Repeat("n", 70) + "  -      ffffffff…  ssssssss…\n"},
		{"n", "\u202e" + strings.Repeat("f", 20), "ä" + strings.Repeat("s", 60), `n     -      \u202eff…  ä` + strings.Repeat("s", 54) + "…\n"},
	} {
		var out bytes.Buffer
		fitted(&out, header, [][]string{dashed([]string{c.name, "", c.first, c.second})}, "FIRST", "SECOND")
		if _, row, _ := strings.Cut(out.String(), "\n"); row != c.want {
			t.Errorf("the row is\n%swant\n%s", row, c.want)
		}
	}
}

// TestDifferencesBelowATable are told in whole words.
func TestDifferencesBelowATable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	folded(&out, "aws-7:", "its labels put it into pool aws_cf-eu11+eu+shared,\nRedis\u202e has it in gcp_cf-sa30 with 4 clusters")
	if want := "aws-7: its labels put it into pool aws_cf-eu11+eu+shared, Redis\\u202e has it\n  in gcp_cf-sa30 with 4 clusters\n"; out.String() != want {
		t.Errorf("told\n%swant\n%s", &out, want)
	}
}
