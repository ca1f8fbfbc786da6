package integration_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// releaseEvent returns a release of a binding; generation 0 names none.
func releaseEvent(id, binding string, generation int64) events.Event {
	e := events.Event{
		Type: events.TypeRelease, ID: id, Source: "/cleanup", Binding: binding,
		Release: &events.Release{Binding: binding},
	}
	if generation > 0 {
		e.Release.Generation = &generation
	}
	return e
}

// released publishes a release and returns its final reply.
func (l *landscape) released(e events.Event) events.Reply {
	l.t.Helper()
	l.free(e)
	return l.answered(e)
}

// left publishes a deprovision and returns its final reply.
func (l *landscape) left(e events.Event) events.Reply {
	l.t.Helper()
	l.depart(e)
	return l.answered(e)
}

// againAs publishes an event a second time, so that it is delivered a second time.
func (l *landscape) againAs(e events.Event, subject string) {
	l.t.Helper()
	l.send(e, subject, "again/"+e.ID)
	l.flush()
	l.awaitSettled()
}

// refusedWith fails the test unless the reply is a rejection with the code.
func refusedWith(t *testing.T, r events.Reply, code engine.Code) {
	t.Helper()
	if r.Status != events.StatusRejected || r.Error == nil || r.Error.Code != code || r.Error.Message == "" {
		t.Errorf("the reply is %s %+v, want %s", r.Status, r.Error, code)
	}
}

// TestRelease is the way of a binding back to its pool, and what keeps it from there.
func TestRelease(t *testing.T) {
	t.Parallel()
	releaseOf(t, accountKind{})
}

func releaseOf(t *testing.T, kind accountKind) {
	l := newLandscapeOf(t, kind, oneAccountRules, append(accounts("aws", 1), accounts("gcp", 1)...))
	l.work(daemon.Options{})
	first, second := ask("rt-1", "ga-1"), ask("rt-2", "ga-2")
	l.provision(first)
	name := l.assigned(first)
	l.provision(second)
	if r := l.waits(second); r.Waiting.Reason != events.WaitingPoolEmpty || r.Waiting.Position != 1 {
		t.Errorf("the second waits as %+v", r.Waiting)
	}

	refusedWith(t, l.released(releaseEvent("too-early", name, 0)), engine.CodeNotDirty)
	refusedWith(t, l.released(releaseEvent("nobodys", "no-such-binding", 0)), engine.CodeUnknownBinding)
	// The label says dirty, Redis knows of a cluster.
	l.label(name, map[string]any{"dirty": "true"})
	refusedWith(t, l.released(releaseEvent("in-use", name, 0)), engine.CodeBindingInUse)
	l.label(name, map[string]any{"dirty": nil})

	gone := l.left(goes(first.RuntimeID, "ga-1"))
	if !gone.MarkedDirty || gone.Draining || *gone.Clusters != 0 {
		t.Fatalf("the deprovision is answered %+v", gone)
	}
	refusedWith(t, l.released(releaseEvent("stale", name, gone.Binding.Generation+1)), engine.CodeStaleRelease)
	if b := l.binding(name); !b.Dirty || b.Tenant != "ga-1" {
		t.Errorf("refused releases left %+v", b)
	}
	clean := releaseEvent("clean", name, gone.Binding.Generation)
	back := l.released(clean)
	if back.Status != events.StatusReturned || back.Binding.Name != name || back.Binding.Generation != gone.Binding.Generation {
		t.Fatalf("the release is answered %+v", back)
	}
	// Who waited has it, under a new claim.
	served := l.answered(second)
	if served.Binding.Name != name || !served.Binding.Claimed || served.Binding.Generation != gone.Binding.Generation+1 {
		t.Errorf("who waited is answered %+v", served.Binding)
	}
	l.awaitSettled()
	// Delivered again it returns the same answer and takes nothing from its next tenant.
	l.againAs(clean, l.subjects.Release(name))
	if again := l.answered(clean); !reflect.DeepEqual(again, back) {
		t.Errorf("the same release is answered\n%+v, before\n%+v", again, back)
	}
	refusedWith(t, l.released(releaseEvent("late", name, gone.Binding.Generation)), engine.CodeStaleRelease)
	if b := l.binding(name); b.Tenant != "ga-2" || b.Dirty || b.ReleasedBy != clean.ID {
		t.Errorf("binding %+v", b)
	}
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
}

// TestReleaseInterrupted is a worker that dies after the labels are off: the
// release that comes again finds nothing dirty, and is answered all the same.
func TestReleaseInterrupted(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules+"worker: {budget: 1s, ackWait: 2s, drain: 1s}\n", accounts("aws", 1))
	w := l.work(daemon.Options{})
	e := ask("rt-1", "ga-1")
	l.provision(e)
	name := l.assigned(e)
	generation := l.left(goes(e.RuntimeID, "ga-1")).Binding.Generation
	l.awaitSettled()
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	clean := releaseEvent("clean", name, generation)
	l.free(clean)
	killedAt(t, l.stack, observe.StepFreed)
	if b := l.binding(name); b.Dirty || b.Tenant != "" {
		t.Fatalf("binding %+v, want it free", b)
	}
	l.work(daemon.Options{})
	if r := l.answered(clean); r.Status != events.StatusReturned || r.Binding.Generation != generation {
		t.Errorf("the release is answered %+v", r)
	}
	next := ask("rt-2", "ga-2")
	l.provision(next)
	if got := l.assigned(next); got != name {
		t.Errorf("the next tenant is on %s, want %s", got, name)
	}
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
}

// TestDraining is an account that its last cluster has left while a Shoot still
// refers to it: it is marked once that is gone, or is the tenant's again before.
func TestDraining(t *testing.T) {
	t.Parallel()
	drainingOf(t, accountKind{})
}

func drainingOf(t *testing.T, kind accountKind) {
	l := newLandscapeOf(t, kind, oneAccountRules, append(accounts("aws", 1), accounts("gcp", 1)...))
	l.work(daemon.Options{})
	ends, returns := ask("rt-ends", "ga-1"), ask("rt-returns", "ga-1")
	returns.Provision.Plan = "gcp"
	l.provision(ends, returns)
	for _, e := range []events.Event{ends, returns} {
		name := l.assigned(e)
		l.shootFor(l.answered(e))
		if r := l.left(goes(e.RuntimeID, "ga-1")); !r.Draining || r.MarkedDirty || *r.Clusters != 0 {
			t.Errorf("the deprovision from %s is answered %+v", name, r)
		}
		if b := l.binding(name); b.Dirty || b.Tenant != "ga-1" {
			t.Errorf("binding %+v, want it unmarked and still the tenant's", b)
		}
	}
	again := ask("rt-again", "ga-1")
	again.Provision.Plan = "gcp"
	l.provision(again)
	if r := l.answered(again); r.Binding.Name != "gcp-01" || r.Binding.Claimed || r.Binding.Generation != 1 {
		t.Errorf("the tenant that is back is answered %+v", r.Binding)
	}
	l.remove(shootsResource, "c-"+ends.RuntimeID)
	l.remove(shootsResource, "c-"+returns.RuntimeID)
	l.record("aws", "aws-01", func(r account.Record) bool { return r.State == account.Dirtying })
	eventually(l.ctx, t, func() error {
		if b := l.binding("aws-01"); !b.Dirty || b.Tenant != "ga-1" {
			return fmt.Errorf("without its Shoot the binding is %+v", b)
		}
		return nil
	})
	if b := l.binding("gcp-01"); b.Dirty {
		t.Errorf("binding %+v is dirty under the tenant that is back", b)
	}
	l.holds(checker.Terms{OneAccount: true})
}

// TestNeverMarked are accounts that their last cluster leaves and no job cleans:
// shared ones, and internal ones of a tenant of ours.
func TestNeverMarked(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, strings.Replace(oneAccountRules, "hap:", "hap:\n  internalGlobalAccounts: [ga-us]", 1), []stack.Account{
		{Name: "trial", HyperscalerType: "aws", Labels: map[string]string{"shared": "true"}},
		{Name: "own", HyperscalerType: "gcp", Labels: map[string]string{"internal": "true", "tenantName": "ga-us"}},
	})
	l.work(daemon.Options{})
	shared, internal := ask("rt-shared", "ga-1"), ask("rt-internal", "ga-us")
	shared.Provision.Plan, shared.Provision.Provider, internal.Provision.Plan = "trial", "aws", "gcp"
	l.provision(shared, internal)
	for e, want := range map[*events.Event]string{&shared: "trial", &internal: "own"} {
		if got := l.assigned(*e); got != want {
			t.Errorf("%s is on %s, want %s", e.RuntimeID, got, want)
		}
		r := l.left(goes(e.RuntimeID, e.Provision.GlobalAccountID))
		if r.Binding.Name != want || r.MarkedDirty || r.Draining || *r.Clusters != 0 {
			t.Errorf("the deprovision is answered %+v", r)
		}
		if b := l.binding(want); b.Dirty {
			t.Errorf("binding %+v is dirty", b)
		}
	}
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
}

// TestDeprovisionOutOfOrder are deprovisions of what is not there, not there yet,
// not served yet, or gone before.
func TestDeprovisionOutOfOrder(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	l.work(daemon.Options{})

	unknown := l.left(goes("rt-unknown", ""))
	if unknown.Status != events.StatusReleased || unknown.Binding != nil || unknown.Clusters != nil {
		t.Errorf("the deprovision of an unknown runtime is answered %+v", unknown)
	}
	// Its provision comes after it: no event would ever return that account.
	late := ask("rt-unknown", "ga-1")
	l.provision(late)
	refusedWith(t, l.answered(late), engine.CodeSuperseded)

	first := ask("rt-1", "ga-1")
	l.provision(first)
	name := l.assigned(first)
	bye := goes(first.RuntimeID, "ga-1")
	gone := l.left(bye)
	l.awaitSettled()
	l.againAs(bye, l.subjects.Deprovision("ga-1"))
	if again := l.answered(bye); !reflect.DeepEqual(again, gone) {
		t.Errorf("delivered again it is answered\n%+v, before\n%+v", again, gone)
	}
	repeat := goes(first.RuntimeID, "ga-1")
	repeat.ID = "bye-again"
	if r := l.left(repeat); r.Status != events.StatusReleased || r.Decision.Sequence != gone.Decision.Sequence || !r.MarkedDirty {
		t.Errorf("under another id it is answered %+v, before %+v", r, gone)
	}
	if b := l.binding(name); !b.Dirty || b.Generation != 1 {
		t.Errorf("binding %+v", b)
	}
	// A request that waits, and the deprovision of its runtime: both are answered.
	waits := ask("rt-waits", "ga-2")
	l.provision(waits)
	l.waits(waits)
	if r := l.left(goes(waits.RuntimeID, "ga-2")); r.Status != events.StatusReleased || r.Binding != nil {
		t.Errorf("the deprovision of a runtime that waits is answered %+v", r)
	}
	refusedWith(t, l.answered(waits), engine.CodeSuperseded)
	l.awaitSettled()
	room, err := l.js.Stream(l.ctx, events.StreamWaiting)
	if err != nil {
		t.Fatal(err)
	}
	if n := room.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("%d requests lie in the waiting room", n)
	}
	// What was counted for it is counted for no tenant: the account goes to the next.
	l.released(releaseEvent("clean", name, 1))
	next := ask("rt-next", "ga-3")
	l.provision(next)
	if got := l.assigned(next); got != name {
		t.Errorf("the next tenant is on %s, want %s", got, name)
	}
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
}
