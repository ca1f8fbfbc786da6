package integration_test

import (
	"fmt"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// TestClaimUndone is an account whose runtime goes before it was ever answered with
// it, at each step of its claim: no broker can have made a cluster there, so that it
// goes back to its pool and is never dirty. Once its claim is confirmed the answer
// may be on its way, and the account is to be cleaned.
func TestClaimUndone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step  observe.Step
		dirty bool
	}{
		{observe.StepAssigned, false},
		{observe.StepLabelled, false},
		{observe.StepConfirmed, true},
	} {
		t.Run(string(c.step), func(t *testing.T) {
			t.Parallel()
			// ackWait is long enough for the deprovision to be settled before the provision,
			// which the killed worker holds, is delivered again.
			l := newLandscape(t, oneAccountRules+"worker: {budget: 1s, ackWait: 10s, drain: 1s}\n", accounts("aws", 1))
			e := ask("rt-1", "ga-1")
			l.provision(e)
			killedAt(t, l.stack, c.step)
			l.awaitNoPulls() // or the killed worker would be sent the deprovision too
			gone := goes(e.RuntimeID, "ga-1")
			l.depart(gone)
			l.work(daemon.Options{})
			if r := l.answered(gone); r.Status != events.StatusReleased || r.MarkedDirty != c.dirty || r.Draining {
				t.Errorf("the deprovision is answered %s, dirty %t, draining %t", r.Status, r.MarkedDirty, r.Draining)
			}
			refusedWith(t, l.answered(e), engine.CodeSuperseded)
			if b := l.binding("aws-01"); b.Dirty != c.dirty || (b.Tenant != "") != c.dirty {
				t.Errorf("binding %+v, want dirty %t", b, c.dirty)
			}
			next := ask("rt-2", "ga-2")
			l.provision(next)
			if c.dirty {
				l.waits(next)
				l.free(releaseEvent("clean", "aws-01", 1))
			}
			if got := l.assigned(next); got != "aws-01" {
				t.Errorf("the next tenant is on %s", got)
			}
			l.awaitSettled()
			l.holds(checker.Terms{OneAccount: true})
		})
	}
}

// awaitNoPulls waits until no worker asks for events, as far as nats-server knows.
func (l *landscape) awaitNoPulls() {
	l.t.Helper()
	eventually(l.ctx, l.t, func() error {
		consumer, err := l.js.Consumer(l.ctx, events.StreamEvents, events.ConsumerWorker)
		if err != nil {
			return err
		}
		if n := consumer.CachedInfo().NumWaiting; n > 0 {
			return fmt.Errorf("%d pulls wait for events", n)
		}
		return nil
	})
}

// TestTakenAway is an account that an operator takes away from under a cluster, by
// hand: the cluster stays where it is, its tenant's next one does not join it.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	for what, take := range map[string]func(*landscape){
		"given to another tenant": func(l *landscape) { l.label("aws-01", map[string]any{"tenantName": "ga-2"}) },
		"deleted":                 func(l *landscape) { l.remove(bindingsResource, "aws-01") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := newLandscape(t, oneAccountRules, accounts("aws", 1))
			l.work(daemon.Options{})
			first := ask("rt-1", "ga-1")
			l.provision(first)
			if got := l.assigned(first); got != "aws-01" {
				t.Fatalf("the first is on %s", got)
			}
			take(l)
			l.record("aws", "aws-01", func(r account.Record) bool { return !r.Confirmed && r.Count == 1 })
			l.create(accounts("aws", 2)[1])
			second := ask("rt-2", "ga-1")
			l.provision(second)
			if got := l.assigned(second); got != "aws-02" {
				t.Errorf("the second is on %s", got)
			}
			again := first
			again.ID = "asks-again"
			l.provision(again)
			if got := l.assigned(again); got != "aws-01" {
				t.Errorf("the first is told %s now (I10)", got)
			}
		})
	}
	t.Run("moved to another pool", func(t *testing.T) {
		t.Parallel()
		l := newLandscape(t, oneAccountRules, accounts("aws", 2))
		l.work(daemon.Options{})
		first, second, other := ask("rt-1", "ga-1"), ask("rt-2", "ga-1"), ask("rt-9", "ga-1")
		l.provision(first)
		name := l.assigned(first)
		l.label(name, map[string]any{"hyperscalerType": "azure"})
		l.create(accounts("azure", 2)[1]) // which the worker sees after the label
		other.Provision.Plan = "azure"
		l.provision(other)
		if got := l.assigned(other); got != "azure-02" {
			t.Errorf("it counts for the other pool under its claim: rt-9 is on %s", got)
		}
		l.provision(second)
		if got := l.assigned(second); got != name {
			t.Errorf("the second is on %s (I4)", got)
		}
		l.record("aws", name, func(r account.Record) bool { return r.Confirmed && r.Count == 2 })
	})
	t.Run("its label is taken off", func(t *testing.T) {
		t.Parallel()
		l := newLandscape(t, oneAccountRules, accounts("aws", 2))
		l.work(daemon.Options{})
		first, second := ask("rt-1", "ga-1"), ask("rt-2", "ga-1")
		l.provision(first)
		name := l.assigned(first)
		l.label(name, map[string]any{"tenantName": nil})
		l.record("aws", name, func(r account.Record) bool { return !r.Confirmed && r.Count == 1 })
		l.provision(second)
		if got := l.assigned(second); got != name {
			t.Errorf("the second is on %s", got)
		}
		eventually(l.ctx, t, func() error {
			if b := l.binding(name); b.Tenant != "ga-1" {
				return fmt.Errorf("its label was not written again: %+v", b)
			}
			return nil
		})
	})
}
