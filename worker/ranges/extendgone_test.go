package ranges

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// A runtime that is deprovisioned while it is served keeps no blocks, even if the serving worker stopped
// before it noticed.
func TestExtendOfOneThatGoes(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt")
	x.space.beforeAcquire = func() { x.gone["rt"] = true } // its deprovision finds no blocks to free yet
	x.pass(x.worker("a"))
	x.want("rt", map[string]string{})
	if left := x.space.space.Snapshot().Records; len(left) > 0 {
		t.Errorf("it has %v", left)
	}

	x = newExtending(t, "rt")
	ended := events.Reply{RequestID: "bye", RuntimeID: "rt", Status: events.StatusReleased, Decision: &events.Decision{Sequence: 9, Pool: "aws"}}
	one := x.worker("a")
	b, err := one.begin(t.Context(), "rt", []answer{{request: "req-rt"}})
	if err != nil {
		t.Fatal(err)
	}
	if held, _, err := one.acquire(t.Context(), "rt", b.request, one.Networks().Rules); len(held) != 1 || err != nil {
		t.Fatal(held, err)
	}
	if _, err := x.archive.Publish(t.Context(), x.subjects.Reply("rt", "bye"), ended, 0); err != nil {
		t.Fatal(err)
	}
	x.gone["rt"] = true
	x.pass(x.worker("a"))
	if left := x.space.space.Snapshot().Records; len(left) > 0 {
		t.Errorf("after the next pass it has %v", left)
	}
}

// serve lets one worker serve one runtime with its stored answers.
func (x *extending) serve(e *Reconciler, runtime string) {
	x.t.Helper()
	answers := []answer{answerOf(x.archive.stored[x.subjects.Reply(runtime, "req-"+runtime)].Reply)}
	if err := e.extend(x.t.Context(), e.Networks(), runtime, answers); err != nil {
		x.t.Error(err)
	}
}

// disjoint fails the test unless a rebuild finds blocks of n clusters that do not overlap.
func (x *extending) disjoint(n int) {
	x.t.Helper()
	read, err := ReadAnswers(x.t.Context(), x.archive)
	if err != nil {
		x.t.Fatal(err)
	}
	found, err := Gather(read, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	records := slices.Collect(found.Records())
	if twice := network.Build(network.State{Records: records}).Check(); len(twice) > 0 || len(records) != n {
		x.t.Errorf("a rebuild finds %v, and twice %v", records, twice)
	}
}

// Two workers serve a runtime while it is deprovisioned, before the ledger says so. One is about to publish
// the blocks that the other one returns. Another cluster may get these, so the publish has to fail.
func TestExtendOfOneThatGoesBeforeAnotherPublishes(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt", "rt-2")
	one, other := x.worker("a"), x.worker("a")
	x.archive.beforePublish = func(events.Reply) {
		x.archive.beforePublish = nil
		x.gone["rt"] = true
		x.serve(other, "rt")
		x.serve(other, "rt-2")
	}
	x.serve(one, "rt")
	x.want("rt", map[string]string{})
	x.disjoint(1)
}

// One worker publishes before the runtime goes; then the other one finds that it is gone.
func TestExtendOfOneThatGoesOnceAnotherHasPublished(t *testing.T) {
	t.Parallel()
	x := newExtending(t, "rt", "rt-2")
	one, other := x.worker("a"), x.worker("a")
	x.space.beforeAcquire = func() {
		x.space.beforeAcquire = nil
		x.serve(one, "rt")
		x.gone["rt"] = true
	}
	x.serve(other, "rt")
	x.serve(other, "rt-2")
	x.want("rt", map[string]string{"req-rt-net1": "a"})
	x.disjoint(2)
	if len(other.signal) != 1 {
		t.Error("no pass looks for blocks that were taken after the deprovision had freed all")
	}
}

// lostPool has no record of a runtime: its pool is not built.
type lostPool struct{}

func (lostPool) Runtime(context.Context, string) (account.Place, account.Runtime, error) {
	return account.Place{Pool: "aws"}, account.Runtime{}, account.ErrNotBuilt
}

// A pool without a labelled binding is rebuilt only if a request names it.
func TestExtendAsksForThePool(t *testing.T) {
	t.Parallel()
	x, asked := newExtending(t, "rt"), rebuilds{}
	e := x.worker("a")
	e.Runtime, e.Rebuild = lostPool{}.Runtime, &asked
	if err := e.Pass(t.Context()); !errors.Is(err, account.ErrNotBuilt) || !slices.Contains(asked, "aws") {
		t.Errorf("asked for %q, error %v", asked, err)
	}
}
