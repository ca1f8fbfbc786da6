package worker

import (
	"context"
	"net/netip"
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// allotting returns a worker that allots a block of 16 addresses from parent to each cluster.
func allotting(parent netip.Prefix) (*Worker, *network.Space) {
	config := &network.Config{Parents: []network.Parent{{ID: "foo", CIDRs: []netip.Prefix{parent}}}, Rules: []network.Rule{{
		ID: "all", Injections: []network.Injection{{Paths: []string{"/a"}, Parents: []string{"foo"}, Size: 28}},
	}}}
	space := network.NewSpace()
	space.SetParents(config.Parents)
	return New(Options{Ranges: &ranges.Allotter{Blocks: inSpace{space}, Networks: fixed(config), Late: new(passes)}}), space
}

// Two attempts at one waiting request hold the same block. If one returns it, the other keeps it. Once the
// request is refused, neither keeps it.
func TestHandlersOfARequestGiveBackTheirOwn(t *testing.T) {
	t.Parallel()
	w, space := allotting(netip.MustParsePrefix("10.0.0.0/24"))
	event := events.Event{Type: events.TypeProvision, ID: "request", RuntimeID: "rt", Provision: &events.Provision{RuntimeID: "rt"}}
	one, two := w.begin(delivery{event: event}), w.begin(delivery{event: event})
	for _, a := range []*attempt{one, two, one} {
		held, err := w.ranges.Acquire(t.Context(), event, a.id())
		if len(held.Applied) != 1 || held.Full != nil || err != nil {
			t.Fatal(held, err)
		}
	}
	if err := w.giveBack(t.Context(), one); err != nil || len(space.Applied("rt")) != 1 {
		t.Errorf("the other handler has %v, %v", space.Applied("rt"), err)
	}
	if err := w.returnRanges(t.Context(), event, event.ID); err != nil || len(space.Applied("rt")) != 0 {
		t.Errorf("the refused request keeps %v, %v", space.Applied("rt"), err)
	}
}

// A published answer may still be stored, even if Publish returned an error. The blocks that it names become
// free only after a waiting reply is stored instead (I9).
func TestBlocksOfAnAnswerThatMayBeStored(t *testing.T) {
	t.Parallel()
	w, space := allotting(netip.MustParsePrefix("10.0.0.0/28"))
	event := events.Event{Type: events.TypeProvision, ID: "request", RuntimeID: "rt", Provision: &events.Provision{RuntimeID: "rt"}}
	a := w.begin(delivery{event: event})
	if held, err := w.ranges.Acquire(t.Context(), event, a.id()); len(held.Applied) != 1 || err != nil {
		t.Fatal(held, err)
	}
	a.markSent(true)
	if err := w.giveBack(t.Context(), a); err != nil || len(space.Applied("rt")) != 1 {
		t.Errorf("before the waiting reply the runtime has %v, %v; the answer may name them", space.Applied("rt"), err)
	}
	if err := w.outlive(t.Context(), a); err != nil || len(space.Applied("rt")) != 0 {
		t.Errorf("after the waiting reply the runtime has %v, %v", space.Applied("rt"), err)
	}
}

// A return that failed may still be executed after the attempt has taken blocks again (I9).
func TestReturnThatIsExecutedLate(t *testing.T) {
	t.Parallel()
	w, space := allotting(netip.MustParsePrefix("10.0.0.0/28"))
	event := events.Event{Type: events.TypeProvision, ID: "request", RuntimeID: "rt", Provision: &events.Provision{RuntimeID: "rt"}}
	late := &lateReturns{inSpace: inSpace{space}, fails: true}
	w.ranges.Blocks = late
	a := w.begin(delivery{event: event})
	for range 2 {
		if held, err := w.ranges.Acquire(t.Context(), event, a.relier()); len(held.Applied) != 1 || err != nil {
			t.Fatal(held, err)
		}
		if late.name == "" && w.giveBack(t.Context(), a) == nil {
			t.Fatal("the return has not failed")
		}
	}
	space.Return("rt", late.name)
	if len(space.Applied("rt")) != 1 {
		t.Error("the late return freed the blocks that were taken after it")
	}
	late.fails = false
	if err := w.giveBack(t.Context(), a); err != nil || len(space.Applied("rt")) != 0 {
		t.Errorf("the runtime has %v, %v", space.Applied("rt"), err)
	}
}

// lateReturns is an allocator whose returns may fail. It keeps the name of the last one.
type lateReturns struct {
	inSpace
	fails bool
	name  string
}

func (l *lateReturns) Return(ctx context.Context, cluster, request string) (network.Returned, error) {
	if l.name = request; l.fails {
		return network.Returned{}, context.DeadlineExceeded
	}
	return l.inSpace.Return(ctx, cluster, request)
}

// leaving are counters in which only rt-1 has a place. They release every runtime.
type leaving struct{ Counters }

func (leaving) Depart(_ context.Context, runtime string) (account.Place, error) {
	return account.Place{Pool: "aws", Gone: runtime != "rt-1", Sequence: 7}, nil
}

func (leaving) ReleaseRuntime(context.Context, account.Place, string, string) (account.Departure, error) {
	return account.Departure{Sequence: 8}, nil
}

// watched is a ledger that calls before ahead of each Publish.
type watched struct {
	*storage.Ledger
	before func()
}

func (l watched) Publish(ctx context.Context, subject string, r events.Reply, expect uint64) (uint64, error) {
	l.before()
	return l.Ledger.Publish(ctx, subject, r, expect)
}

// noRequests is a waiting room without requests.
type noRequests struct{ Room }

func (noRequests) OfRuntime(context.Context, string, func(storage.WaitingRequest) error) error {
	return nil
}

// The blocks of a released runtime become free after the ledger says that it is gone, and not before: until
// then a rebuild finds the runtime with its blocks. If a worker stops in between, a redelivery frees them.
func TestBlocksOutlastTheReplyToADeparture(t *testing.T) {
	t.Parallel()
	rules := []network.Rule{{ID: "all", Injections: []network.Injection{{Paths: []string{"/a"}, Size: 28}}}}
	for _, runtime := range []string{"rt-1", "rt-unknown"} {
		space := network.NewSpace()
		space.SetParents([]network.Parent{{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/28")}}})
		broker, subjects := memorytest.Streams(t)
		heldThen := -1
		ledger := watched{storage.NewLedgerOn(broker, subjects, "test"), func() { heldThen = len(space.Applied(runtime)) }}
		var late passes
		w := New(Options{
			Ranges:   &ranges.Allotter{Blocks: inSpace{space}, Networks: fixed(&network.Config{}), Late: &late},
			Counters: leaving{}, Room: noRequests{}, Ledger: ledger, Subjects: subjects,
		})
		event := events.Event{Type: events.TypeDeprovision, ID: "bye", RuntimeID: runtime, Deprovision: &events.Deprovision{RuntimeID: runtime}}
		for _, number := range []uint64{1, 1, 2} { // published a second time, then redelivered
			if _, err := space.Acquire(runtime, "request", rules); err != nil {
				t.Fatal(err)
			}
			out, err := w.answer(t.Context(), w.begin(delivery{number: number, event: event, subject: event.ReplySubject(subjects)}))
			if err != nil || out.verdict != observe.Ack || out.status != events.StatusReleased {
				t.Fatalf("%s: %+v, %v", runtime, out, err)
			}
			if held := len(space.Applied(runtime)); heldThen != 1 || held != 0 {
				t.Errorf("%s: %d rules were held when the reply was stored, and %d afterwards; want 1 and 0", runtime, heldThen, held)
			}
		}
		if !w.Pending() {
			t.Errorf("%s: a request that waits for a block is not served", runtime)
		}
	}
}

// passes counts the calls of ranges.Passes.
type passes int

func (p *passes) Wanted()     { *p++ }
func (p *passes) Soon(string) { *p++ }
func (p *passes) Freed()      { *p++ }

// fixed is a configuration that does not change.
func fixed(config *network.Config) func() *network.Config {
	return func() *network.Config { return config }
}

// inSpace adapts network.Space to ranges.Allocator.
type inSpace struct{ *network.Space }

func (s inSpace) Acquire(_ context.Context, cluster, request string, rules []network.Rule) (network.Acquired, error) {
	return s.Space.Acquire(cluster, request, rules)
}

func (s inSpace) Return(_ context.Context, cluster, request string) (network.Returned, error) {
	return s.Space.Return(cluster, request), nil
}

func (s inSpace) Release(_ context.Context, cluster string) ([]network.Applied, error) {
	return s.Space.Release(cluster), nil
}
