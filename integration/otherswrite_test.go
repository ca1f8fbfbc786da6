package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// askPlan is a provision of a plan.
func askPlan(id, tenant, plan string) events.Event {
	e := ask(id, tenant)
	e.Provision.Plan = plan
	return e
}

func inState(s account.State) func(account.Record) bool {
	return func(r account.Record) bool { return r.State == s }
}

// shows waits until a worker's metric has the value.
func (l *landscape) shows(w *inProcess, series, value string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
	defer cancel()
	eventually(ctx, l.t, func() error {
		if got := w.metric(series); got != value {
			return fmt.Errorf("%s is %q, want %s", series, got, value)
		}
		return nil
	})
}

// says waits until a worker's log has a text.
func (l *landscape) says(w *inProcess, text string) {
	l.t.Helper()
	eventually(l.ctx, l.t, func() error {
		if !strings.Contains(w.log.String(), text) {
			return errors.New("the log does not say " + text)
		}
		return nil
	})
}

// TestOthersWrite does what operators and older jobs do to bindings by hand: Redis
// follows, and who waits is served. Each case has its own pool.
func TestOthersWrite(t *testing.T) {
	t.Parallel()
	all := append(append(append(append(accounts("aws", 1), accounts("azure", 1)...), accounts("gcp", 1)...),
		accounts("gcp_cf-sa30", 1)...), stack.Account{Name: "aws-eu-01", HyperscalerType: "aws", Labels: map[string]string{"euAccess": "true"}})
	l := newLandscape(t, oneAccountRules, all)
	w := l.work(daemon.Options{})

	t.Run("an account is given to a tenant, and taken away", func(t *testing.T) {
		l.label("aws-01", map[string]any{"tenantName": "ga-1"})
		l.record("aws", "aws-01", inState(account.InUse))
		other, own := ask("rt-a-other", "ga-2"), ask("rt-a-own", "ga-1")
		l.provision(other)
		l.waits(other)
		l.provision(own)
		if r := l.answered(own); r.Status != events.StatusAssigned || r.Binding.Name != "aws-01" || r.Binding.Claimed {
			t.Errorf("its tenant is answered %s %+v", r.Status, r.Binding)
		}
		l.left(goes(own.RuntimeID, "ga-1"))
		l.label("aws-01", map[string]any{"tenantName": nil, "dirty": nil})
		if got := l.assigned(other); got != "aws-01" {
			t.Errorf("who waited is on %s", got)
		}
	})
	t.Run("an account is marked dirty, and cleaned", func(t *testing.T) {
		l.label("azure-01", map[string]any{"dirty": "true"})
		l.record("azure", "azure-01", inState(account.Dirtying))
		e := askPlan("rt-b", "ga-1", "azure")
		l.provision(e)
		l.waits(e)
		l.label("azure-01", map[string]any{"dirty": nil})
		if got := l.assigned(e); got != "azure-01" {
			t.Errorf("who waited is on %s", got)
		}
		// Under its cluster: no new tenant gets it while it is marked.
		l.label("azure-01", map[string]any{"dirty": "true"})
		l.shows(w, `hap_pool_bindings{pool="azure",state="dirty"}`, "1")
		second := askPlan("rt-b-second", "ga-1", "azure")
		l.provision(second)
		l.waits(second)
		l.label("azure-01", map[string]any{"dirty": nil})
		if got := l.assigned(second); got != "azure-01" {
			t.Errorf("who waited is on %s", got)
		}
	})
	t.Run("an account is cordoned", func(t *testing.T) {
		l.label("gcp-01", map[string]any{"hap-worker/cordon": "true"})
		l.shows(w, `hap_pool_bindings{pool="gcp",state="cordoned"}`, "1")
		e := askPlan("rt-c", "ga-1", "gcp")
		l.provision(e)
		l.waits(e)
		l.label("gcp-01", map[string]any{"hap-worker/cordon": nil})
		if got := l.assigned(e); got != "gcp-01" {
			t.Errorf("who waited is on %s", got)
		}
		// Its own tenant, too, waits: a second account would be one too many.
		l.label("gcp-01", map[string]any{"hap-worker/cordon": "true"})
		l.create(stack.Account{Name: "gcp-02", HyperscalerType: "gcp"})
		l.shows(w, `hap_pool_bindings{pool="gcp",state="free"}`, "1") // and so, what was written before
		second := askPlan("rt-c-second", "ga-1", "gcp")
		l.provision(second)
		l.waits(second)
		l.label("gcp-01", map[string]any{"hap-worker/cordon": nil})
		if got := l.assigned(second); got != "gcp-01" {
			t.Errorf("the second is on %s", got)
		}
	})
	t.Run("an account appears, in a pool that had none", func(t *testing.T) {
		e := askPlan("rt-d", "ga-1", "azure")
		e.Provision.PlatformRegion = "cf-ch20"
		l.provision(e)
		if r := l.waits(e); r.Decision.Pool != "azure+eu" || !r.Waiting.Deadline.After(time.Now()) {
			t.Errorf("it waits as %+v %+v", r.Decision, r.Waiting)
		}
		l.create(stack.Account{Name: "azure-eu-01", HyperscalerType: "azure", Labels: map[string]string{"euAccess": "true"}})
		if got := l.assigned(e); got != "azure-eu-01" {
			t.Errorf("who waited is on %s", got)
		}
	})
	t.Run("accounts are deleted, and made anew", func(t *testing.T) {
		e := askPlan("rt-e", "ga-1", "aws")
		e.Provision.PlatformRegion = "cf-eu11"
		l.provision(e)
		if got := l.assigned(e); got != "aws-eu-01" {
			t.Fatalf("it is on %s", got)
		}
		if r := l.left(goes(e.RuntimeID, "ga-1")); !r.MarkedDirty {
			t.Fatalf("the deprovision is answered %+v", r)
		}
		l.remove(bindingsResource, "aws-eu-01")
		l.record("aws+eu", "aws-eu-01", inState(account.Free))
		next := askPlan("rt-e-next", "ga-2", "aws")
		next.Provision.PlatformRegion = "cf-eu11"
		l.provision(next)
		l.waits(next)
		l.create(all[len(all)-1])
		if got := l.assigned(next); got != "aws-eu-01" {
			t.Errorf("who waited is on %s", got)
		}
	})
	t.Run("a pool is paused", func(t *testing.T) {
		store := sources(t, l.stack, l.js, l.subjects).Counters
		if err := store.Pause(l.ctx, "gcp_cf-sa30"); err != nil {
			t.Fatal(err)
		}
		e := askPlan("rt-f", "ga-1", "gcp")
		e.Provision.PlatformRegion = "cf-sa30"
		l.provision(e)
		l.waits(e)
		if err := store.Resume(l.ctx, "gcp_cf-sa30"); err != nil {
			t.Fatal(err)
		}
		if got := l.assigned(e); got != "gcp-cf-sa30-01" {
			t.Errorf("who waited is on %s", got)
		}
	})
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
}
