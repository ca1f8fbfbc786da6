package integration_test

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// departing is one block for every cluster.
const departing = "parentCIDRs: {foo: [10.1.0.0/28]}\ninjectionRules: [{id: all, injections: [{path: .spec.network.cidr, parents: [foo], subnetSize: 30}]}]\n"

// stand stops the first handler that comes to a step, and no other one.
type stand struct {
	gate
	taken atomic.Bool
	goOn  func()
}

func newStand(step observe.Step) *stand {
	s := &stand{gate: gate{step: step, reached: make(chan struct{}), open: make(chan struct{})}}
	s.goOn = sync.OnceFunc(func() { close(s.open) })
	return s
}

func (s *stand) at(step observe.Step) {
	if step == s.step && s.taken.CompareAndSwap(false, true) {
		close(s.reached)
		<-s.open
	}
}

// TestNetworkDepartureThatIsLost is a departure that Redis knows and the ledger does
// not, when Redis is lost. The rebuild finds the cluster as it was, with its blocks, and
// its next request is answered with them: so no other cluster can have them by then.
func TestNetworkDepartureThatIsLost(t *testing.T) {
	t.Parallel()
	n := newNetworked(t, "", departing, accounts("aws", 2))
	s := newStand(observe.StepDirtying)
	n.work(daemon.Options{OnStep: s.at})
	t.Cleanup(s.goOn) // before the worker is waited for
	leaves, comes := cluster("rt-leaves", "ga-1", nil, nil), cluster("rt-comes", "ga-2", nil, nil)
	n.provision(leaves)
	left := n.given(leaves)["/spec/network/cidr"]
	bye := goes("rt-leaves", "ga-1")
	n.depart(bye)
	s.await(n.ctx, t)
	n.provision(comes)
	came := n.given(comes)["/spec/network/cidr"]
	if err := n.stack.Redis.Lose(n.ctx); err != nil {
		t.Fatal(err)
	}
	again := leaves
	again.ID = "asks-again"
	n.provision(again)
	if got := n.given(again)["/spec/network/cidr"]; got != left || got == came {
		t.Errorf("rt-leaves had %s and is answered with %s, while rt-comes has %s", left, got, came)
	}
	ranges := blocks.New(sources(t, n.stack, n.js, n.subjects).Counters)
	state, err := ranges.State(n.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, twice := range network.Build(state).Check() {
		t.Errorf("Redis has twice: %s", twice)
	}
	s.goOn()
	if r := n.answered(bye); r.Status != events.StatusReleased {
		t.Errorf("the deprovision is %s %+v", r.Status, r.Error)
	}
	n.awaitSettled()
	if state, err = ranges.State(n.ctx); err != nil || len(state.Records) != 1 || state.Records[0].Cluster != "rt-comes" {
		t.Errorf("in the end there are %+v, %v", state.Records, err)
	}
}

// TestNetworkAnswerAfterItsDeparture is an answer that was decided before its runtime
// went, and is stored once the runtime's block is another's. Its number says that it is
// in force no more.
func TestNetworkAnswerAfterItsDeparture(t *testing.T) {
	t.Parallel()
	n := newNetworked(t, "", departing, accounts("aws", 2))
	s := newStand(observe.StepConfirmed)
	n.work(daemon.Options{OnStep: s.at})
	t.Cleanup(s.goOn) // before the worker is waited for
	leaves, comes := cluster("rt-leaves", "ga-1", nil, nil), cluster("rt-comes", "ga-2", nil, nil)
	n.provision(leaves)
	s.await(n.ctx, t)
	gone := n.left(goes("rt-leaves", "ga-1"))
	eventually(n.ctx, t, func() error { return n.holdsNothing("rt-leaves") })
	n.provision(comes)
	came := n.given(comes)
	s.goOn()
	late := n.answered(leaves)
	if late.Status != events.StatusAssigned || !maps.Equal(ranges(late), came) || late.Decision.Sequence >= gone.Decision.Sequence {
		t.Errorf("the answer is %s with %v under %+v; rt-comes has %v, the departure is %+v", late.Status, ranges(late), late.Decision, came, gone.Decision)
	}
	n.awaitSettled()
	n.holds(checker.Terms{OneAccount: true})
}

// holdsNothing is an error while Redis has blocks of a runtime.
func (n *networked) holdsNothing(runtime string) error {
	has, err := blocks.New(sources(n.t, n.stack, n.js, n.subjects).Counters).Applied(n.ctx, runtime)
	if err == nil && len(has) > 0 {
		err = fmt.Errorf("%s has %v", runtime, has)
	}
	return err
}
