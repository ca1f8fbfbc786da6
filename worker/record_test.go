package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// A decision that is repeated after a conflict has no Considered. The record takes it from the first decision.
func TestTrailKeepsConsidered(t *testing.T) {
	t.Parallel()
	var tr decisionTrace
	first := account.Decision{
		Outcome: account.Assigned, Binding: "aws-2", Sequence: 4, Origin: account.Claimed,
		Considered: []account.Considered{{Binding: "aws-1", Clusters: 3, Verdict: account.AtLimit}, {Binding: "aws-2", Verdict: account.Chosen}},
	}
	tr.decided(time.Now(), &first)
	again := account.Decision{Outcome: account.Assigned, Binding: "aws-2", Sequence: 4, Origin: account.Claimed, Repeated: true}
	tr.decided(time.Now(), &again)
	if len(again.Considered) != 2 {
		t.Errorf("the repeat has %v", again.Considered)
	}
	another := account.Decision{Outcome: account.Assigned, Binding: "aws-3", Sequence: 5, Repeated: true}
	tr.decided(time.Now(), &another)
	if another.Considered != nil || tr.chosen.Sequence != 5 {
		t.Errorf("another decision has %v, the trail that of %d", another.Considered, tr.chosen.Sequence)
	}
	tr.decided(time.Now(), &account.Decision{Outcome: account.Short})
	if tr.chosen.Sequence != 5 {
		t.Error("an attempt that decided nothing took the place of a decision")
	}
}

// A runtime that a rebuild found in a Shoot alone has sequence 0. Its first decision is a repeated one, and the
// record says where the account came from.
func TestTrailOfAnAdoptedRuntime(t *testing.T) {
	t.Parallel()
	var tr decisionTrace
	first := account.Decision{Outcome: account.Assigned, Binding: "aws-2", Origin: account.Adopted, Repeated: true}
	tr.decided(time.Now(), &first)
	if tr.chosen.Origin != account.Adopted || tr.chosen.Binding != "aws-2" {
		t.Errorf("the trail has %+v, want the adopted runtime's", tr.chosen)
	}
}

// The decision of an adopted runtime keeps sequence 0 when it is repeated after a conflict.
func TestTrailOfARepeatedNumberZero(t *testing.T) {
	t.Parallel()
	var tr decisionTrace
	decide := func(d account.Decision) account.Decision {
		d.Outcome, d.Repeated = account.Assigned, true
		tr.decided(time.Now(), &d)
		return d
	}
	looked := []account.Considered{{Binding: "aws-2", Verdict: account.Chosen}}
	decide(account.Decision{Binding: "aws-2", Epoch: "e1", Origin: account.Adopted, Considered: looked})
	if again := decide(account.Decision{Binding: "aws-2", Epoch: "e1", Origin: account.Adopted}); len(again.Considered) != 1 {
		t.Errorf("the repeat has %v", again.Considered)
	}
}

// If a rebuild happens while an event is handled, the same sequence may belong to another decision.
func TestTrailAcrossARebuild(t *testing.T) {
	t.Parallel()
	for name, number := range map[string]int64{"number 0": 0, "a number": 5} {
		var tr decisionTrace
		before := account.Decision{
			Outcome: account.Assigned, Binding: "aws-1", Sequence: number, Epoch: "e1", Origin: account.Claimed,
			Considered: []account.Considered{{Binding: "aws-1", Verdict: account.Chosen}},
		}
		tr.decided(time.Now(), &before)
		after := account.Decision{Outcome: account.Assigned, Binding: "aws-1", Sequence: number, Epoch: "e2", Origin: account.Adopted, Repeated: true}
		tr.decided(time.Now(), &after)
		if tr.chosen.Origin != account.Adopted || after.Considered != nil {
			t.Errorf("%s: the trail has %+v, the decision %v", name, tr.chosen, after.Considered)
		}
	}
}

// The record of an assignment with sequence 0 by an earlier request lists no rules, since none was applied.
func TestRecordOfNumberZeroElsewhere(t *testing.T) {
	t.Parallel()
	rules, err := rule.Compile([]string{"aws", "aws(PR=cf-eu11) -> EU"}, rule.Options{Require: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[events.Status]int{events.StatusAssigned: 0, events.StatusRejected: 1} {
		a := &attempt{}
		a.trace.asks(rules, rule.Request{Plan: "aws"})
		r := events.Reply{Status: status, Decision: &events.Decision{}}
		new(Handler).record(a, &r)
		if got := len(r.Decision.Passed); got != want {
			t.Errorf("%s: %d rules that lost, want %d", status, got, want)
		}
	}
}

// The record keeps only the last mostAttempts attempts.
func TestTrailBoundsAttempts(t *testing.T) {
	t.Parallel()
	var tr decisionTrace
	for i := range 20 {
		tr.attempt(time.Now(), fmt.Sprint("aws-", i), observe.ClaimConflict)
	}
	if !tr.times.Claimed.IsZero() {
		t.Error("claimed without a write")
	}
	tr.attempt(time.Now(), "aws-20", observe.ClaimWritten)
	if n := len(tr.attempts); n != mostAttempts || tr.attempts[0].Binding != "aws-13" || tr.attempts[n-1].Result != "written" || tr.times.Claimed.IsZero() {
		t.Errorf("%d attempts: %v", n, tr.attempts)
	}
	var none *decisionTrace
	none.attempt(time.Now(), "aws-1", observe.ClaimWritten)
	none.decided(time.Now(), &account.Decision{})
}

// departed records only its first call. The runtime's state is empty if this event may have released it before.
func TestTrailDeparted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left    account.Departure
		again   bool
		runtime string
		state   string
	}{
		"assigned":                  {account.Departure{Binding: "aws-1", State: account.Draining}, false, "assigned", "draining"},
		"waiting":                   {account.Departure{Waited: "req-1", State: account.Free}, false, "waiting", ""},
		"refused, or never known":   {account.Departure{State: account.Free}, false, "none", ""},
		"gone before":               {account.Departure{Binding: "aws-1", Repeated: true, State: account.InUse}, false, "gone", "claimed"},
		"gone, perhaps by this one": {account.Departure{Binding: "aws-1", Repeated: true, State: account.InUse}, true, "", "claimed"},
	} {
		var tr decisionTrace
		tr.departed(c.left, c.again, "/broker")
		if got := tr.changed; got.Runtime != c.runtime || got.Account != c.state || got.Superseded != c.left.Waited || got.By != "/broker" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	var tr decisionTrace
	tr.departed(account.Departure{Binding: "aws-1", State: account.Draining}, false, "")
	tr.departed(account.Departure{Binding: "aws-1", State: account.Draining, Repeated: true}, false, "")
	if tr.changed.Runtime != "assigned" {
		t.Errorf("the second attempt of the same worker made it %+v", tr.changed)
	}
}
