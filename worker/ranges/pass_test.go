package ranges

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// keeperFake keeps the ranges of a spaceFake.
type keeperFake struct {
	Keeper
	*spaceFake
	lost bool            // until they are built again
	torn []network.State // what the next calls of State return
}

func (k *keeperFake) SetParents(_ context.Context, parents []network.Parent) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost {
		return account.ErrNotBuilt
	}
	k.space.SetParents(parents)
	return nil
}

func (k *keeperFake) State(context.Context) (network.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.torn) > 0 {
		state := k.torn[0]
		k.torn = k.torn[1:]
		return state, nil
	}
	return k.space.Snapshot(), nil
}

func parentsOf(cidr string) []network.Parent {
	return []network.Parent{{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix(cidr)}}}
}

// keeps returns a Reconciler with the rule a and this parent, and the Keeper by which it writes that.
func (x *extending) keeps(parent string) (*Reconciler, *keeperFake) {
	e, keeper := x.worker("a"), &keeperFake{spaceFake: x.space}
	e.Keeper, e.Networks().Parents = keeper, parentsOf(parent)
	return e, keeper
}

// Each pass writes the parents, and Room is called once for each configuration, when they are written.
func TestPassWritesTheParents(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt")
	e, keeper := x.keeps("10.9.0.0/24")
	called := 0
	e.Room = func() { called++ }
	keeper.lost = true
	if err := e.Pass(t.Context()); !errors.Is(err, account.ErrNotBuilt) || called > 0 {
		t.Fatalf("without ranges: called %d times, %v", called, err)
	}
	keeper.lost = false
	for range 2 { // before the second pass, a worker with older rules rebuilds the ranges
		x.space.space.SetParents(parentsOf("10.0.0.0/24"))
		x.pass(e)
		if got := x.space.space.Snapshot().Parents; called != 1 || got[0].CIDRs[0].String() != "10.9.0.0/24" {
			t.Fatalf("called %d times, and the parents are %v", called, got)
		}
	}
	x.want("rt", map[string]string{"req-rt-net1": "a"})
	next := *e.Networks()
	e.Networks = configFake(&next)
	if x.pass(e); called != 2 {
		t.Errorf("after another configuration: called %d times", called)
	}
}

// Requests that wait are told of blocks that a pass frees.
func TestPassFreesBlocks(t *testing.T) {
	t.Parallel()
	x := newExtending(t)
	e, _ := x.keeps("10.0.0.0/24")
	x.pass(e)
	called := 0
	e.Room = func() { called++ }
	if x.pass(e); called > 0 {
		t.Error("nothing was freed, and Room is called")
	}
	if _, err := x.space.Acquire(t.Context(), "rt", "late", e.Networks().Rules); err != nil {
		t.Fatal(err)
	}
	ended := events.Reply{RequestID: "bye", RuntimeID: "rt", Status: events.StatusReleased, Decision: &events.Decision{Sequence: 9, Pool: "aws"}}
	if _, err := x.archive.Publish(t.Context(), x.subjects.Reply("rt", "bye"), ended, 0); err != nil {
		t.Fatal(err)
	}
	x.gone["rt"] = true
	if x.pass(e); called != 1 || len(x.space.space.Snapshot().Records) > 0 {
		t.Errorf("Room is called %d times, left is %v", called, x.space.space.Snapshot().Records)
	}
}

// Blocks of a runtime are freed too if it went before it had a pool: its answer names none.
func TestGoneWithoutPool(t *testing.T) {
	t.Parallel()
	x := newExtending(t)
	e, _ := x.keeps("10.0.0.0/24")
	e.Runtime = func(context.Context, string) (account.Place, account.Runtime, error) {
		return account.Place{Gone: true}, account.Runtime{}, nil
	}
	if _, err := x.space.Acquire(t.Context(), "rt", "late", e.Networks().Rules); err != nil {
		t.Fatal(err)
	}
	ended := events.Reply{RequestID: "bye", RuntimeID: "rt", Status: events.StatusReleased, Decision: &events.Decision{Sequence: 9}}
	if _, err := x.archive.Publish(t.Context(), x.subjects.Reply("rt", "bye"), ended, 0); err != nil {
		t.Fatal(err)
	}
	if x.pass(e); len(x.space.space.Snapshot().Records) > 0 {
		t.Errorf("left is %v", x.space.space.Snapshot().Records)
	}
}

// A runtime that was gone when a pass began, is forgotten while it lasts, and comes again keeps the blocks that it has
// taken by then, also for an extra reply: no answer names them yet.
func TestForgottenRuntimeComesAgain(t *testing.T) {
	t.Parallel()
	for _, request := range []string{"req-rt", "req-rt-net1"} {
		x := newExtending(t, "rt")
		e, keeper := x.keeps("10.0.0.0/24")
		if _, err := e.begin(t.Context(), "rt", []answer{{request: "req-rt"}}); err != nil {
			t.Fatal(err)
		}
		ended := events.Reply{RequestID: "bye", RuntimeID: "rt", Status: events.StatusReleased, Decision: &events.Decision{Sequence: 9, Pool: "aws"}}
		if _, err := x.archive.Publish(t.Context(), x.subjects.Reply("rt", "bye"), ended, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := keeper.Acquire(t.Context(), "rt", request, e.Networks().Rules); err != nil { // it has come again
			t.Fatal(err)
		}
		if x.pass(e); len(x.space.space.Applied("rt")) != 1 {
			t.Errorf("%s has lost its blocks", request)
		}
	}
}

// A block that went from one cluster to another while the state was read is no conflict.
func TestConflictsOfATornState(t *testing.T) {
	t.Parallel()
	x := newExtending(t)
	e, keeper := x.keeps("10.0.0.0/24")
	var conflicts []string
	e.Observer.OnRefresh = func(_ context.Context, r observe.Refresh) { conflicts = r.Conflicts }
	of := func(clusters ...string) (state network.State) {
		for _, c := range clusters {
			applied := network.Applied{Rule: "a", Blocks: []network.Block{{CIDR: netip.MustParsePrefix("10.0.0.0/28")}}}
			state.Records = append(state.Records, network.Record{Cluster: c, Requests: []string{"p-" + c}, Applied: applied})
		}
		return state
	}
	for _, c := range []struct {
		second network.State
		want   int
	}{{of("two"), 0}, {of("one", "two"), 1}} {
		keeper.torn = []network.State{of("one", "two"), c.second}
		if x.pass(e); len(conflicts) != c.want {
			t.Errorf("conflicts are %q, want %d", conflicts, c.want)
		}
	}
}

// What workers without network configuration have done since the first pass is put right without a request.
func TestRunPassesOnceMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, passes := &Reconciler{Networks: configFake(nil)}, 0
		e.Observer.OnUnserved = func(context.Context, observe.Unserved) { passes++ }
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		if e.Run(ctx); passes != 2 {
			t.Errorf("there are %d passes, want 2", passes)
		}
	})
}

// What may happen often does not have one turn follow the other.
func TestSoon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ took, after time.Duration }{{0, 2 * time.Second}, {time.Second, 9 * time.Second}, {time.Hour, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			e := &Reconciler{}
			e.init()
			e.took.Store(int64(c.took))
			begin := time.Now()
			for range 3 {
				e.Soon("rt")
			}
			<-e.signal
			if after := time.Since(begin); after != c.after {
				t.Errorf("after a turn of %s the next one is requested after %s, want %s", c.took, after, c.after)
			}
			select {
			case <-e.signal:
				t.Error("it is requested once more")
			case <-time.After(time.Hour):
			}
		})
	}
}

// A changed configuration does not wait for a pass that is running. If Redis has no ranges, the next pass has it.
func TestConfigured(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt")
	e, keeper := x.keeps("10.9.0.0/24")
	called := 0
	e.Room = func() { called++ }
	for _, lost := range []bool{true, false} {
		keeper.lost = lost
		e.Configured(t.Context())
		written := x.space.space.Snapshot().Parents[0].CIDRs[0].String() == "10.9.0.0/24"
		if written == lost || (called > 0) == lost || len(e.signal) != 1 {
			t.Errorf("lost %t: written %t, called %d times, %d passes requested", lost, written, called, len(e.signal))
		}
	}
}

// A request whose rules do not fit the parents in Redis has a pass write them.
func TestOtherParents(t *testing.T) {
	t.Parallel()
	named := network.Rule{ID: "a", Injections: []network.Injection{{Paths: []string{"/a"}, Parents: []string{"foo"}, Size: 28}}}
	anyParent := network.Rule{ID: "b", Injections: []network.Injection{{Paths: []string{"/b"}, Size: 28}}}
	for _, c := range []struct {
		name string
		rule network.Rule
		has  []network.Parent
		want wanted
		code engine.Code
	}{
		{"there is no such parent", named, nil, 1, engine.CodeInternal},
		{"there is none at all", anyParent, nil, 1, ""},
		{"they are full", anyParent, parentsOf("10.0.0.0/28"), 0, ""},
		{"it has room", named, parentsOf("10.0.0.0/24"), 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var asked wanted
			space := network.NewSpace()
			space.SetParents(c.has)
			if _, err := space.Acquire("other", "other", []network.Rule{anyParent}); err != nil && c.has != nil {
				t.Fatal(err)
			}
			config := &network.Config{Parents: parentsOf("10.0.0.0/24"), Rules: []network.Rule{c.rule}}
			a := &Allotter{Blocks: &spaceFake{space: space}, Networks: configFake(config), Late: &asked}
			_, err := a.Acquire(t.Context(), events.Event{RuntimeID: "rt", Provision: &events.Provision{}}, "a")
			if engine.CodeOf(err) != c.code || asked != c.want {
				t.Errorf("asked %d times, want %d; %v", asked, c.want, err)
			}
		})
	}
}

// An extra reply that NATS does not take stops no other cluster, and its blocks are free again.
func TestExtraReplyThatCannotBeStored(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt-1", "rt-2")
	x.archive.refuses = func(r events.Reply) error {
		if r.RuntimeID == "rt-1" {
			return storage.ErrUnstorable
		}
		return nil
	}
	x.pass(x.worker("a"))
	x.want("rt-1", map[string]string{})
	x.want("rt-2", map[string]string{"req-rt-2-net1": "a"})
	if left := x.space.space.Applied("rt-1"); len(left) > 0 {
		t.Errorf("it has %v", left)
	}
	if len(x.told) != 2 || !slices.ContainsFunc(x.told, func(e observe.Extended) bool { return e.Runtime == "rt-1" && errors.Is(e.Err, storage.ErrUnstorable) }) {
		t.Errorf("told %v", x.told)
	}
}

// The blocks of a request with a newer version's reply are not returned: it may be an assignment.
func TestReplyOfANewerVersionIsNoRefusal(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt")
	e, _ := x.keeps("10.0.0.0/24")
	x.archive.unreadable = x.subjects.Reply("newer", "p-1")
	if _, err := x.space.space.Acquire("newer", "p-1", e.Networks().Rules); err != nil {
		t.Fatal(err)
	}
	x.pass(e)
	if left := x.space.space.Applied("newer"); len(left) != 1 {
		t.Errorf("it has %v", left)
	}
	x.want("rt", map[string]string{"req-rt-net1": "a"})
}

// A refusal that retention is about to delete frees no blocks: once it is gone, the request may come again, be a new
// one, and be answered with the blocks that an attempt at it has by now.
func TestOldRefusalFreesNoBlocks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for age, left := range map[time.Duration]int{59 * time.Minute: 0, time.Hour: 1} {
		x := newExtending(t)
		e, _ := x.keeps("10.0.0.0/24")
		e.Refused, e.Now = time.Hour, func() time.Time { return now }
		subject := x.subjects.Reply("again", "p-1")
		x.archive.stored[subject] = events.Stored{
			Reply:   events.Reply{RequestID: "p-1", RuntimeID: "again", Status: events.StatusRejected},
			Subject: subject, Sequence: 1, Time: now.Add(-age),
		}
		if _, err := x.space.space.Acquire("again", "p-1", e.Networks().Rules); err != nil {
			t.Fatal(err)
		}
		if x.pass(e); len(x.space.space.Applied("again")) != left {
			t.Errorf("a refusal %s ago leaves %v", age, x.space.space.Applied("again"))
		}
	}
}
