package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// A decision that is repeated after a conflict comes without the bindings that the
// first one looked at; the record has them all the same.
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

// The record stays small however often a claim is lost: the last attempts count.
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

// What a deprovision changed is told once, and not guessed at.
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
		tr.departed(c.left, c.again)
		if got := tr.changed; got.Runtime != c.runtime || got.Account != c.state || got.Superseded != c.left.Waited {
			t.Errorf("%s: %+v", name, got)
		}
	}
	var tr decisionTrace
	tr.departed(account.Departure{Binding: "aws-1", State: account.Draining}, false)
	tr.departed(account.Departure{Binding: "aws-1", State: account.Draining, Repeated: true}, false)
	if tr.changed.Runtime != "assigned" {
		t.Errorf("the second attempt of the same worker made it %+v", tr.changed)
	}
}
