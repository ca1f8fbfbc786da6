package ranges

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// archiveFake is a ledger in memory.
type archiveFake struct {
	Ledger
	mu     sync.Mutex
	last   uint64
	stored map[string]events.Stored

	beforePublish func(events.Reply)       // called for replies that are not sealed
	refuses       func(events.Reply) error // what Publish returns for such a reply, unless it is nil
	unreadable    string                   // the subject whose last reply is a newer version's

	walks int // reads of the whole ledger
}

func (a *archiveFake) Last(_ context.Context, subject string) (events.Stored, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if subject == a.unreadable {
		return events.Stored{}, false, events.ErrUnknownReply
	}
	stored, found := a.stored[subject]
	return stored, found, nil
}

func (a *archiveFake) Publish(_ context.Context, subject string, r events.Reply, expect uint64) (uint64, error) {
	if a.beforePublish != nil && r.Final() {
		a.beforePublish(r)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuses != nil && r.Final() {
		if err := a.refuses(r); err != nil {
			return 0, err
		}
	}
	if a.stored[subject].Sequence != expect {
		return 0, storage.ErrWrongLastSequence
	}
	a.last++
	a.stored[subject] = events.Stored{Reply: r, Subject: subject, Sequence: a.last}
	return a.last, nil
}

func (a *archiveFake) EachAfter(_ context.Context, sequence uint64, visit func(events.Stored) error) error {
	if sequence == 0 {
		a.mu.Lock()
		a.walks++
		a.mu.Unlock()
	}
	return a.each(func(stored events.Stored) error {
		if stored.Sequence <= sequence {
			return nil
		}
		return visit(stored)
	})
}

func (a *archiveFake) End(context.Context) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last, nil
}

func (a *archiveFake) OfRuntime(_ context.Context, runtime string, visit func(events.Stored) error) error {
	return a.each(func(stored events.Stored) error {
		if stored.Reply.RuntimeID != runtime {
			return nil
		}
		return visit(stored)
	})
}

func (a *archiveFake) each(visit func(events.Stored) error) error {
	a.mu.Lock()
	all := slices.SortedFunc(maps.Values(a.stored), func(x, y events.Stored) int { return int(x.Sequence) - int(y.Sequence) })
	a.mu.Unlock()
	for _, stored := range all {
		if err := visit(stored); err != nil {
			return err
		}
	}
	return nil
}

// spaceFake is the model of the ranges, safe for several workers.
type spaceFake struct {
	mu    sync.Mutex
	space *network.Space

	beforeAcquire func()
}

func (s *spaceFake) Acquire(_ context.Context, cluster, request string, rules []network.Rule) (network.Acquired, error) {
	if s.beforeAcquire != nil {
		s.beforeAcquire()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space.Acquire(cluster, request, rules)
}

func (s *spaceFake) Return(_ context.Context, cluster, request string) (network.Returned, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space.Return(cluster, request), nil
}

func (s *spaceFake) Release(_ context.Context, cluster string) ([]network.Applied, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space.Release(cluster), nil
}

// lodgingsFake knows which runtimes are gone; all others are assigned.
type lodgingsFake map[string]bool

func (l lodgingsFake) Runtime(_ context.Context, id string) (account.Place, account.Runtime, error) {
	if l[id] {
		return account.Place{Pool: "aws"}, account.Runtime{State: account.RuntimeGone}, nil
	}
	return account.Place{Pool: "aws"}, account.Runtime{State: account.RuntimeAssigned}, nil
}

// configFake is a configuration that does not change.
func configFake(config *network.Config) func() *network.Config {
	return func() *network.Config { return config }
}

// extending is a ledger with answered runtimes without blocks, and ranges to serve them.
type extending struct {
	t        *testing.T
	archive  *archiveFake
	space    *spaceFake
	gone     lodgingsFake
	subjects events.Subjects
	told     []observe.Extended
	unserved map[string]int // by the last pass
}

func newExtending(t *testing.T, runtimes ...string) *extending {
	t.Helper()
	subjects, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	x := &extending{t: t, archive: &archiveFake{stored: map[string]events.Stored{}}, gone: lodgingsFake{}, subjects: subjects}
	x.lose()
	for i, runtime := range runtimes {
		r := events.Reply{
			RequestID: "req-" + runtime, RuntimeID: runtime, Status: events.StatusAssigned, GlobalAccountID: "ga",
			Binding:    &events.Binding{Name: "aws-1", Claimed: i == 0},
			Decision:   &events.Decision{Sequence: int64(i + 1), Pool: "aws", Origin: "claimed"},
			ShootPatch: []events.PatchOperation{{Op: "add", Path: "/spec/credentialsBindingName", Value: "aws-1"}},
		}
		if _, err := x.archive.Publish(t.Context(), subjects.Reply(runtime, r.RequestID), r, 0); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// lose empties Redis.
func (x *extending) lose() {
	space := network.NewSpace()
	space.SetParents([]network.Parent{{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}})
	x.space = &spaceFake{space: space}
}

// worker returns a Reconciler with these rules, by id. Each rule injects a /28 at the path of its id.
func (x *extending) worker(rules ...string) *Reconciler {
	config := &network.Config{}
	for _, id := range rules {
		in := network.Injection{Paths: []string{"/" + strings.TrimRight(id, "'")}, Parents: []string{"foo"}, Size: 28}
		config.Rules = append(config.Rules, network.Rule{ID: id, Injections: []network.Injection{in}})
	}
	return &Reconciler{
		Ranges: x.space, Networks: configFake(config), Ledger: x.archive, Runtime: x.gone.Runtime,
		Rebuild: &rebuilds{}, Subjects: x.subjects,
		Observer: observe.Observer{OnExtended: func(_ context.Context, i observe.Extended) {
			x.space.mu.Lock()
			defer x.space.mu.Unlock()
			x.told = append(x.told, i)
		}, OnUnserved: func(_ context.Context, u observe.Unserved) {
			x.space.mu.Lock()
			defer x.space.mu.Unlock()
			x.unserved = u.Clusters
		}},
	}
}

func (x *extending) pass(e *Reconciler) {
	x.t.Helper()
	if err := e.Pass(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
}

// answers returns the rules of a runtime's extra replies, by request.
func (x *extending) answers(runtime string) map[string]string {
	out := map[string]string{}
	for _, stored := range x.archive.stored {
		if r := stored.Reply; r.RuntimeID == runtime && r.Final() && r.RequestID != "req-"+runtime {
			var rules []string
			for _, block := range r.Network {
				rules = append(rules, block.Rule)
			}
			out[r.RequestID] = strings.Join(rules, " ")
		}
	}
	return out
}

func (x *extending) want(runtime string, want map[string]string) {
	x.t.Helper()
	if got := x.answers(runtime); !maps.Equal(got, want) {
		x.t.Errorf("the extra replies of %s are %v, want %v", runtime, got, want)
	}
}

// An extra reply is a copy of the answer with all blocks. A second pass adds nothing.
func TestExtend(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt")
	x.pass(x.worker("a"))
	x.pass(x.worker("a", "b", "a'")) // a' has the same path as a
	x.pass(x.worker("b", "a"))
	x.want("rt", map[string]string{"req-rt-net1": "a", "req-rt-net2": "a b"})
	r := x.archive.stored[x.subjects.Reply("rt", "req-rt-net2")].Reply
	if r.Binding.Claimed || r.Decision.Sequence != 1 || r.Decision.Pool != "aws" || r.Binding.Name != "aws-1" {
		t.Errorf("the extra reply is %+v, %+v", r.Binding, r.Decision)
	}
	want := []events.PatchOperation{
		{Op: "add", Path: "/spec/credentialsBindingName", Value: "aws-1"},
		{Op: "add", Path: "/a", Value: "10.0.0.0/28"}, {Op: "add", Path: "/b", Value: "10.0.0.16/28"},
	}
	if !reflect.DeepEqual(r.ShootPatch, want) {
		t.Errorf("the patch is %v, want %v", r.ShootPatch, want)
	}
	merged := map[string]any{"spec": map[string]any{"credentialsBindingName": "aws-1"}, "a": "10.0.0.0/28", "b": "10.0.0.16/28"}
	if !reflect.DeepEqual(r.ShootMergePatch, merged) {
		t.Errorf("the merge patch is %v, want %v", r.ShootMergePatch, merged)
	}
}

// A publisher's request may have the id of an extra reply. If it is sealed while it is being decided, it
// keeps its blocks.
func TestExtendBesideARequestOfSuchAnID(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt")
	seal := events.Reply{RequestID: "my-net1", RuntimeID: "rt-new", Status: events.StatusSealed}
	if _, err := x.archive.Publish(t.Context(), x.subjects.Reply("rt-new", "my-net1"), seal, 0); err != nil {
		t.Fatal(err)
	}
	w := x.worker("a")
	if _, err := x.space.Acquire(t.Context(), "rt-new", "my-net1", w.Networks().Rules); err != nil {
		t.Fatal(err)
	}
	x.pass(w)
	if kept := x.space.space.Applied("rt-new"); len(kept) != 1 {
		t.Errorf("it has %v, want what it took", kept)
	}
}

// An event that has taken the id of an extra reply keeps it: its own reply is still to be stored there.
func TestExtendBesideAnEventThatHasTakenTheID(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt")
	subject := x.subjects.Reply("rt", "req-rt-net1")
	seal := events.Reply{RequestID: "req-rt-net1", RuntimeID: "rt", Status: events.StatusSealed, For: events.TypeDeprovision}
	sequence, err := x.archive.Publish(t.Context(), subject, seal, 0)
	if err != nil {
		t.Fatal(err)
	}
	x.pass(x.worker("a"))
	x.want("rt", map[string]string{"req-rt-net2": "a"})
	if now := x.archive.stored[subject]; now.Sequence != sequence {
		t.Errorf("its message is %+v", now.Reply)
	}
	if read, err := ReadAnswers(t.Context(), x.archive); err != nil || len(read.Begun) > 0 {
		t.Errorf("begun are %v, %v", read.Begun, err)
	}
}

// If workers with different configurations serve the same clusters at once, all blocks in Redis are answered,
// and those of different clusters do not overlap.
func TestExtendOfSeveralWorkers(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		x := newExtending(t, "rt-1", "rt-2", "rt-3")
		var running sync.WaitGroup
		for _, w := range []*Reconciler{x.worker("a"), x.worker("a", "b"), x.worker("b", "c"), x.worker("a", "b")} {
			running.Go(func() { x.pass(w) })
		}
		running.Wait()
		answered, owner := map[string]string{}, map[string]string{}
		for _, stored := range x.archive.stored {
			for _, block := range stored.Reply.Network {
				answered[stored.Reply.RuntimeID+" "+block.Rule] = block.CIDR
				if by, taken := owner[block.CIDR]; taken && by != stored.Reply.RuntimeID {
					t.Errorf("round %d: %s is answered to %s and %s", round, block.CIDR, by, stored.Reply.RuntimeID)
				}
				owner[block.CIDR] = stored.Reply.RuntimeID
			}
		}
		held := map[string]string{}
		for _, record := range x.space.space.Snapshot().Records {
			held[record.Cluster+" "+record.Rule] = record.Blocks[0].CIDR.String()
		}
		if len(held) != 9 || !maps.Equal(held, answered) {
			t.Fatalf("round %d: held are %v, answered %v", round, held, answered)
		}
	}
}

// A rule without room is reported, with its clusters at the end of the pass, and does not prevent the other rules.
func TestExtendWithoutRoom(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt")
	w := x.worker("a", "large", "b")
	large := &w.Networks().Rules[1].Injections[0]
	large.Size = 24
	for range 2 {
		if x.pass(w); !maps.Equal(x.unserved, map[string]int{"large": 1}) {
			t.Errorf("without room are %v", x.unserved)
		}
	}
	x.want("rt", map[string]string{"req-rt-net1": "a b"})
	var told []string
	for _, i := range x.told {
		told = append(told, fmt.Sprint(i.Rule, " ", engine.CodeOf(i.Err) == engine.CodeNetworkExhausted))
	}
	if !slices.Equal(told, []string{"large true", "a false", "b false", "large true"}) {
		t.Errorf("told %v", told)
	}
	large.Size = 28
	if x.pass(w); len(x.unserved) > 0 {
		t.Errorf("with room for all, without room are %v", x.unserved)
	}
}

// The ids of extra replies are valid, and differ for different requests.
func TestExtraRequest(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", engine.MaxID-1)
	seen := map[string]bool{}
	for _, request := range []string{"r", long + "1", long + "2", long[:engine.MaxID-6] + "12"} {
		for _, n := range []int{1, 2, 100} {
			id := extraRequest(request, n)
			if !engine.ValidID(id) || !extraID.MatchString(id) || seen[id] {
				t.Errorf("the extra reply %d of %s is %s", n, request, id)
			}
			seen[id] = true
		}
	}
	if got := extraRequest("r", 2); got != "r-net2" {
		t.Errorf("the second extra reply is %s", got)
	}
}

// rebuilds records the pools for which a rebuild was requested.
type rebuilds []string

func (r *rebuilds) Wanted(pool string) { *r = append(*r, pool) }
