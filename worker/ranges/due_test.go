package ranges

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// What is due adds up until a turn takes it. Too many clusters are served by a pass over all.
func TestDue(t *testing.T) {
	t.Parallel()
	var d due
	if now := d.take(); now.all || now.unserved || len(now.runtimes) > 0 {
		t.Errorf("nothing was requested, and %+v is due", now)
	}
	d.add(dueNow{runtimes: map[string]bool{"a": true}})
	d.add(dueNow{unserved: true})
	d.add(dueNow{runtimes: map[string]bool{"b": true}})
	if now := d.take(); now.all || !now.unserved || !maps.Equal(now.runtimes, map[string]bool{"a": true, "b": true}) {
		t.Errorf("due are %+v", now)
	}
	for i := range mostDue + 1 {
		d.add(dueNow{runtimes: map[string]bool{fmt.Sprint(i): true}})
	}
	if now := d.take(); !now.all || len(now.runtimes) > 0 {
		t.Errorf("of %d clusters %d are due one by one", mostDue+1, len(now.runtimes))
	}
}

// A cluster counts once for each rule that finds no room now. Of too many, only the number is kept.
func TestUnserved(t *testing.T) {
	t.Parallel()
	var u unserved
	u.reset()
	u.set("one", []string{"a", "b"})
	u.set("two", []string{"a"})
	u.set("one", []string{"a"})
	u.set("three", nil)
	if got := u.byRule(); !maps.Equal(got, map[string]int{"a": 2}) {
		t.Errorf("unserved are %v", got)
	}
	if runtimes, all := u.known(); !all || !maps.Equal(runtimes, map[string]bool{"one": true, "two": true}) {
		t.Errorf("known are %v, %t", runtimes, all)
	}
	for i := range mostDue {
		u.set(fmt.Sprint(i), []string{"a"})
	}
	if runtimes, all := u.known(); all || len(runtimes) != mostDue || u.byRule()["a"] != mostDue+2 {
		t.Errorf("known are %d of %v, all %t", len(runtimes), u.byRule(), all)
	}
	u.reset()
	if runtimes, all := u.known(); !all || len(runtimes)+len(u.byRule()) > 0 {
		t.Errorf("left are %v", runtimes)
	}
}

// Clusters that find no room are served once blocks are free, and those of stored answers that lack a rule, without
// a walk through the ledger.
func TestServesWhatIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newExtending(t, "served", "full", "other")
		x.space.space.SetParents([]network.Parent{{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/27")}}})
		e := x.worker("a")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.Run(ctx)
		}()
		rest := func(after time.Duration, unserved int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			x.space.mu.Lock()
			defer x.space.mu.Unlock()
			if x.unserved["a"] != unserved || x.archive.walks != 1 {
				t.Errorf("unserved are %v, want %d; the ledger was read %d times", x.unserved, unserved, x.archive.walks)
			}
		}
		rest(time.Second, 1) // two of the three have a block
		free := func() {
			if _, err := x.space.Release(t.Context(), x.space.space.Snapshot().Records[0].Cluster); err != nil {
				t.Error(err)
			}
			e.Freed()
		}
		free()
		rest(soonest-time.Millisecond, 1)
		rest(time.Millisecond, 0)
		served := 0
		for _, runtime := range []string{"served", "full", "other"} {
			served += len(x.answers(runtime))
		}
		if served != 3 {
			t.Errorf("%d clusters were served", served)
		}
		free()
		rest(latest, 0) // nothing waits for it
		late := events.Reply{RequestID: "late", RuntimeID: "late", Status: events.StatusAssigned, Binding: &events.Binding{Name: "aws-1"}, Decision: &events.Decision{Sequence: 9, Pool: "aws"}}
		if _, err := x.archive.Publish(t.Context(), x.subjects.Reply("late", "late"), late, 0); err != nil {
			t.Fatal(err)
		}
		e.Soon("late")
		rest(soonest, 0)
		if got := x.archive.stored[x.subjects.Reply("late", "late-net1")].Reply; len(got.Network) != 1 {
			t.Errorf("late has %v", got.Network)
		}
		stop()
		<-done
	})
}

// A Cluster that changes is served by what the ledger's answers say of its runtimes, also by those that were stored
// since the last pass, and by those of a ledger that was created again.
func TestServesClustersThatChange(t *testing.T) {
	t.Parallel()
	x := newExtending(t)
	add := func(runtime, cluster string) {
		t.Helper()
		r := events.Reply{
			RequestID: "req-" + runtime, RuntimeID: runtime, Status: events.StatusAssigned, Binding: &events.Binding{Name: "aws-1"},
			Decision: &events.Decision{Sequence: 1, Pool: "aws"}, Cluster: &events.Cluster{Name: cluster, Namespace: "n"},
		}
		if _, err := x.archive.Publish(t.Context(), x.subjects.Reply(runtime, r.RequestID), r, 0); err != nil {
			t.Fatal(err)
		}
	}
	there := clustersFake{}
	e := x.worker()
	e.Networks = configFake(purposed("a"))
	e.Follower = &Follower{Now: there.Now, Networks: e.Networks, Soon: e.Soon, SoonOf: e.SoonOf}
	turn := func(walks int) {
		t.Helper()
		if _, err := e.turn(t.Context(), time.Now()); err != nil || x.archive.walks != walks {
			t.Errorf("the whole ledger was read %d times, want %d; %v", x.archive.walks, walks, err)
		}
	}
	add("one", "first")
	e.Wanted()
	turn(1)
	add("two", "second")
	add("three", "second")
	for _, name := range []string{"first", "second", "unknown"} {
		now := serving(name, "a")
		there[name] = now
		e.Follower.Changed(nil, &now)
	}
	turn(1)
	for _, runtime := range []string{"one", "two", "three"} {
		x.want(runtime, map[string]string{"req-" + runtime + "-net1": "a"})
	}
	x.archive.stored, x.archive.last = map[string]events.Stored{}, 0
	x.lose()
	e.Ranges = x.space
	add("four", "first")
	e.SoonOf(network.Identity{Name: "first", Namespace: "n"})
	turn(2)
	x.want("four", map[string]string{"req-four-net1": "a"})
}

// A pass that panics is still due.
func TestTurnThatPanics(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt")
	e := x.worker("a")
	e.Wanted()
	networks := e.Networks
	e.Networks = func() *network.Config { panic("a fault") }
	func() {
		defer func() { _ = recover() }()
		_, _ = e.turn(t.Context(), time.Now())
	}()
	e.Networks = networks
	if whole, err := e.turn(t.Context(), time.Now()); !whole || err != nil {
		t.Errorf("the next turn is whole: %t, %v", whole, err)
	}
	x.want("rt", map[string]string{"req-rt-net1": "a"})
}

// What a turn could not serve is still due, and requests for single clusters do not delay the pass over all.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newExtending(t, "rt")
		e := x.worker("a")
		e.Networks().Refresh = time.Hour
		down, retries := errors.New("down"), 0
		e.Observer.OnRetry = func(context.Context, observe.Retry) { retries++ }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.Run(ctx)
		}()
		time.Sleep(onceMore)
		synctest.Wait()
		refuse := func(by func(events.Reply) error) {
			x.archive.mu.Lock()
			defer x.archive.mu.Unlock()
			x.archive.refuses = by
			delete(x.archive.stored, x.subjects.Reply("rt", "req-rt-net1"))
		}
		x.lose()
		e.Ranges = x.space
		refuse(func(events.Reply) error { return down })
		e.Soon("rt")
		time.Sleep(latest)
		synctest.Wait()
		refuse(nil)
		time.Sleep(2 * extendAgain)
		synctest.Wait()
		if x.want("rt", map[string]string{"req-rt-net1": "a"}); retries == 0 || x.archive.walks != 2 {
			t.Errorf("%d retries, the ledger was read %d times", retries, x.archive.walks)
		}
		for range 20 {
			e.Soon("rt")
			time.Sleep(4 * time.Minute)
		}
		synctest.Wait()
		if x.archive.walks != 3 {
			t.Errorf("after more than an hour the ledger was read %d times, want 3", x.archive.walks)
		}
		stop()
		<-done
	})
}
