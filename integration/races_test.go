package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/faulty"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// severalRules are the initial rules with up to three clusters on an account and
// several accounts for the tenants whose names begin with several.
const severalRules = oneAccountRules + `
  multiHyperscalerAccount:
    allowedGlobalAccounts: [several-1, several-2, several-3, several-4]
    limits: {default: 3}
    strategy: fill-most-populated
`

// asks are n provisions of a plan for a tenant.
func asks(prefix, tenant, plan string, n int) []events.Event {
	out := make([]events.Event, n)
	for i := range out {
		out[i] = ask(fmt.Sprintf("%s-%02d", prefix, i+1), tenant)
		out[i].Provision.Plan = plan
	}
	return out
}

// atOnce publishes events while no worker runs, lets two workers take them, and
// returns when everything is settled.
func (l *landscape) atOnce(e ...events.Event) {
	l.t.Helper()
	l.provision(e...)
	first, second := l.work(daemon.Options{}), l.work(daemon.Options{})
	l.awaitSettled()
	for _, w := range []*inProcess{first, second} {
		if err := w.end(); err != nil {
			l.t.Error(err)
		}
	}
}

// clusters counts the clusters on each binding that the events are answered with.
func (l *landscape) clusters(all []events.Event) map[string]int {
	l.t.Helper()
	on := map[string]int{}
	for _, e := range all {
		on[l.assigned(e)]++
	}
	return on
}

// TestRacesForAccounts are provisions of one tenant at once, on which a worker
// that reads and then writes claims too many accounts, overfills them, or says
// that there are none.
func TestRacesForAccounts(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, severalRules, append(append(accounts("azure", 5), accounts("aws", 20)...), accounts("gcp", 1)...))
	first := asks("first", "ga-1", "azure", 3)
	full := asks("full", "several-1", "aws", 3)
	two := asks("two", "several-2", "aws", 2)
	last := asks("last", "ga-2", "gcp", 20)
	l.atOnce(append(append(append(first, full...), two...), last...)...)
	for what, e := range map[string][]events.Event{"3 first": first, "3 up to the limit": full, "2 first": two, "20 on the last account": last} {
		if on := l.clusters(e); len(on) != 1 {
			t.Errorf("%s are spread over %v, want one account", what, on)
		}
	}
	four, twenty := asks("four", "several-1", "aws", 4), asks("twenty", "several-2", "aws", 20)
	l.atOnce(append(four, twenty...)...)
	taken := l.clusters(full)
	if on := l.clusters(four); len(on) != 2 {
		t.Errorf("4 at a full account are spread over %v, want two", on)
	} else {
		for name := range on {
			if taken[name] > 0 {
				t.Errorf("the full account %s got another cluster", name)
			}
		}
	}
	on := l.clusters(append(two, twenty...))
	if len(on) != 8 {
		t.Errorf("22 clusters are spread over %v, want 8 accounts", on)
	}
	for name, n := range on {
		if n > 3 {
			t.Errorf("%s has %d clusters, the limit is 3", name, n)
		}
	}
	l.holds(checker.Terms{Limit: 20}) // ga-2 has no limit
}

// TestLimitsUnderContention is 64 provisions at once of a tenant with limit 3,
// by every strategy.
func TestLimitsUnderContention(t *testing.T) {
	t.Parallel()
	for _, strategy := range []account.Strategy{account.FillMostPopulated, account.FillFirst, account.RoundRobin} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			l := newLandscape(t, strings.Replace(severalRules, "fill-most-populated", string(strategy), 1), accounts("aws", 24))
			all := asks("rt", "several-1", "aws", 64)
			l.atOnce(all...)
			if on := l.clusters(all); len(on) != 22 {
				t.Errorf("64 clusters are on %d accounts, want 22: %v", len(on), on)
			}
			facts, claimed := l.facts(), 0
			for _, b := range facts.Bindings {
				if b.Tenant != "" {
					claimed++
				}
			}
			if claimed != 22 {
				t.Errorf("%d accounts carry the tenant's name, want 22", claimed)
			}
			for _, violation := range facts.Violations(checker.Terms{Limit: 3}) {
				t.Error(violation)
			}
		})
	}
}

// TestTenantComesBack is a deprovision that empties an account while a provision
// of the same tenant is under way: the account is never marked dirty under it.
func TestTenantComesBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		at   observe.Step // the deprovision stops here; "" is nowhere
		same bool         // the provision gets the same account
	}{
		{"decided and without a Shoot before the deprovision", "", true},
		{"after the account was counted down", observe.StepDeparted, true},
		{"when the mark is permitted already", observe.StepDirtying, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLandscape(t, oneAccountRules, accounts("aws", 2))
			g := newGate(test.at)
			l.work(daemon.Options{OnStep: g.at})
			leaves, comes := ask("rt-leaves", "ga-1"), ask("rt-comes", "ga-1")
			l.provision(leaves)
			emptied := l.assigned(leaves)
			bye := goes(leaves.RuntimeID, "ga-1")
			if test.at == "" {
				l.provision(comes)
				l.answered(comes)
				l.depart(bye)
			} else {
				l.depart(bye)
				g.await(l.ctx, t)
				l.provision(comes)
				l.answered(comes)
				close(g.open)
			}
			gone := l.answered(bye)
			l.awaitSettled()
			if got := l.assigned(comes); (got == emptied) != test.same {
				t.Errorf("the tenant is back on %s, it left %s", got, emptied)
			}
			if gone.MarkedDirty == test.same || gone.Draining {
				t.Errorf("the deprovision is answered %+v", gone)
			}
			if b := l.binding(emptied); b.Dirty == test.same {
				t.Errorf("binding %+v", b)
			}
			l.holds(checker.Terms{OneAccount: true})
		})
	}
}

// TestDecidedUnderADeprovision is the same race seen from the provision: it has
// its decision and no answer yet while the account's only other cluster goes.
func TestDecidedUnderADeprovision(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 2))
	leaves, comes := ask("rt-leaves", "ga-1"), ask("rt-comes", "ga-1")
	l.atOnce(leaves)
	g := newGate(observe.StepAssigned)
	l.work(daemon.Options{OnStep: g.at})
	l.provision(comes)
	g.await(l.ctx, t)
	bye := goes(leaves.RuntimeID, "ga-1")
	l.depart(bye)
	if gone := l.answered(bye); gone.MarkedDirty || gone.Draining || *gone.Clusters != 1 {
		t.Errorf("the deprovision is answered %+v", gone)
	}
	close(g.open)
	if got := l.binding(l.assigned(comes)); got.Dirty || got.Tenant != "ga-1" {
		t.Errorf("binding %+v", got)
	}
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
}

// TestShootCheckFails is an API that cannot say which Shoots there are: that is
// never taken for "no Shoot". The deprovisions are answered with draining where that lasts, and
// a sweep marks the account once the Shoots can be listed.
func TestShootCheckFails(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules+"worker: {budget: 1s, ackWait: 2s, drain: 1s}\n", accounts("aws", 2))
	proxy, env := l.faultyAPI()
	l.work(daemon.Options{Env: env})
	inUse, unused := ask("rt-in-use", "ga-1"), ask("rt-unused", "ga-2")
	l.provision(inUse, unused)
	stays, goesDirty := l.assigned(inUse), l.assigned(unused)
	l.shoot(inUse.RuntimeID, stays)

	var checks atomic.Int32
	faults := []faulty.Fault{
		{Status: http.StatusInternalServerError}, {Status: http.StatusForbidden}, {Status: http.StatusNotFound},
		{Status: http.StatusTooManyRequests, RetryAfter: 1}, {CutBefore: true}, {CutAfter: true},
	}
	proxy.Choose(func(r *http.Request) faulty.Fault {
		if !strings.HasSuffix(r.URL.Path, "/shoots") {
			return faulty.Fault{}
		}
		return faults[int(checks.Add(1))%len(faults)]
	})
	bye, byeUnused := goes(inUse.RuntimeID, "ga-1"), goes(unused.RuntimeID, "ga-2")
	l.depart(bye)
	l.depart(byeUnused)
	eventually(l.ctx, t, func() error {
		if n := checks.Load(); n < int32(3*len(faults)) {
			return fmt.Errorf("the Shoots were asked for %d times", n)
		}
		return nil
	})
	for _, name := range []string{stays, goesDirty} {
		if b := l.binding(name); b.Dirty {
			t.Errorf("%s is marked dirty while nobody knows its Shoots", name)
		}
	}
	for _, e := range []events.Event{bye, byeUnused} {
		if r := l.reply(e.ReplySubject(l.subjects)); r.MarkedDirty || r.Final() && !r.Draining {
			t.Errorf("the deprovision of %s is answered %+v", e.RuntimeID, r)
		}
	}
	proxy.Choose(nil)
	if r := l.answered(bye); r.MarkedDirty || !r.Draining {
		t.Errorf("the deprovision under a Shoot is answered %+v", r)
	}
	if r := l.answered(byeUnused); r.MarkedDirty == r.Draining {
		t.Errorf("the deprovision without a Shoot is answered %+v", r)
	}
	eventually(l.ctx, t, func() error {
		if b := l.binding(goesDirty); !b.Dirty {
			return fmt.Errorf("%s is not marked dirty", goesDirty)
		}
		return nil
	})
	if b := l.binding(stays); b.Dirty {
		t.Errorf("%s is dirty under its Shoot", stays)
	}
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
}
