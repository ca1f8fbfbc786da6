package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/rebuild"
)

// TestRedisIsLostUnderLoad loses Redis in the middle of provisions and
// deprovisions, twice: everything is answered, and nothing is allotted twice.
func TestRedisIsLostUnderLoad(t *testing.T) {
	t.Parallel()
	underLoad(t, func(l *landscape, _ int) {
		if err := l.stack.Redis.Lose(l.ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRedisComesBackOlder lets Redis crash in the middle of provisions and
// deprovisions and come up with what it had before all of them: assignments that
// were answered are missing in it, and runtimes are in it that are gone.
func TestRedisComesBackOlder(t *testing.T) {
	t.Parallel()
	underLoad(t, func(l *landscape, _ int) {
		if l.stack.Redis.Kind() == stack.MiniRedis {
			t.Fatal("redis-server is required")
		}
		if err := l.stack.Redis.Rewind(l.ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// underLoad has two workers serve 900 events in three waves, and does something
// to Redis in the middle of the second and the third.
func underLoad(t *testing.T, trouble func(l *landscape, wave int)) {
	t.Helper()
	const tenants, each = 20, 300
	l := newLandscape(t, oneAccountRules+"worker: {ackWait: 3s, budget: 2s}\n", roomyAccounts(tenants*3))
	for range 2 {
		l.work(daemon.Options{})
	}
	random := newRandom(t)
	var alive []events.Event
	for wave := range 3 {
		if err := l.stack.Redis.Remember(); err != nil {
			t.Fatal(err)
		}
		var asked []events.Event
		for n := range each {
			if n == each/2 && wave > 0 {
				l.flush()
				l.awaitFewer(each)
				trouble(l, wave)
			}
			if len(alive) > 0 && random.IntN(2) == 0 {
				l.deprovision(leaves(takeAny(random, &alive), wave))
				continue
			}
			e := randomProvision(random, wave*each+n)
			e.Provision.GlobalAccountID = fmt.Sprintf("ga-%02d", random.IntN(tenants))
			l.publish(e, "")
			asked = append(asked, e)
		}
		l.flush()
		l.awaitSettled()
		alive = append(alive, asked...)
	}
	l.agrees(checker.Terms{OneAccount: true})
}

func takeAny(random *rand.Rand, from *[]events.Event) events.Event {
	i := random.IntN(len(*from))
	e := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return e
}

func leaves(e events.Event, wave int) events.Event {
	return events.Event{
		Type: events.TypeDeprovision, ID: fmt.Sprintf("bye-%d-%s", wave, e.RuntimeID), Source: "/integration", RuntimeID: e.RuntimeID,
		Deprovision: &events.Deprovision{RuntimeID: e.RuntimeID, GlobalAccountID: e.Provision.GlobalAccountID},
	}
}

// awaitFewer returns when the workers are at it: some of the events are settled.
func (p *publisher) awaitFewer(than uint64) {
	p.t.Helper()
	eventually(p.ctx, p.t, func() error {
		stream, err := p.js.Stream(p.ctx, events.StreamEvents)
		if err != nil {
			return err
		}
		if s := stream.CachedInfo().State; s.Msgs > 0 && s.FirstSeq < 20 {
			return fmt.Errorf("nothing of %d is settled", s.Msgs)
		}
		return nil
	})
}

// agrees fails the test for every invariant that does not hold, and for every
// drift that is left once the workers have had the time to mark what drains.
func (l *landscape) agrees(terms checker.Terms) {
	l.t.Helper()
	for _, violation := range l.facts().Violations(terms) {
		l.t.Error(violation)
	}
	eventually(l.ctx, l.t, func() error {
		if drift := l.facts().Drift(); len(drift) > 0 {
			return fmt.Errorf("%d drifts, such as %s", len(drift), drift[0])
		}
		return nil
	})
}

// TestFirstStart takes a landscape over that another broker filled: its accounts
// and clusters are adopted with their counts, as are those that it marked dirty, and an
// adopted runtime can be deprovisioned.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	const many = 7
	filled := accounts("aws", 6)
	filled[0].Labels = map[string]string{"tenantName": "ga-old"}
	filled[1].Labels = map[string]string{"tenantName": "ga-idle"}
	filled[2].Labels = map[string]string{"tenantName": "ga-left", "dirty": "true"}
	filled[3].Labels = map[string]string{"tenantName": "ga-one"}
	shared := stack.Account{Name: "trial-1", HyperscalerType: "aws", Labels: map[string]string{"shared": "true"}}
	l := newLandscape(t, oneAccountRules, append(filled, shared))
	for n := range many {
		l.shootOf(fmt.Sprintf("old-%d", n), "aws-01", map[string]any{"annotations": map[string]any{"infrastructuremanager.kyma-project.io/runtime-id": fmt.Sprintf("rt-old-%d", n)}})
	}
	l.shootOf("old-label", "aws-01", map[string]any{"labels": map[string]any{"kcp.provisioner.kyma-project.io/runtime-id": "rt-label"}})
	l.shootOf("old-name", "aws-01", nil)
	l.shootOf("only", "aws-04", nil)
	l.shootOf("trial-a", "trial-1", nil)
	l.shootOf("trial-b", "trial-1", nil)
	l.work(daemon.Options{})
	l.work(daemon.Options{})

	facts := l.facts()
	for name, want := range map[string]account.Record{
		"aws-01":  {State: account.InUse, Tenant: "ga-old", Count: many + 2},
		"aws-02":  {State: account.InUse, Tenant: "ga-idle"},
		"aws-03":  {State: account.Dirtying, Tenant: "ga-left"},
		"aws-04":  {State: account.InUse, Tenant: "ga-one", Count: 1},
		"aws-05":  {},
		"trial-1": {State: account.InUse, Confirmed: true, Count: 2},
	} {
		if got := facts.Record(facts.Bindings[name]); got != want {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
	for _, id := range []string{"rt-old-0", "rt-label", "old-name", "only", "trial-a"} {
		if r := facts.Runtimes[id]; len(r) != 1 || r[0].State != account.RuntimeAssigned || r[0].Origin != account.Adopted {
			t.Errorf("runtime %s is %+v", id, r)
		}
	}

	// Tenants go on with what they have: their next clusters join their old ones.
	l.provision(ask("rt-new", "ga-old"), ask("rt-idle", "ga-idle"), ask("rt-fresh", "ga-fresh"), ask("rt-old-0", "ga-old"))
	l.awaitSettled()
	for id, want := range map[string]struct {
		binding  string
		clusters int
	}{"rt-new": {"aws-01", many + 3}, "rt-idle": {"aws-02", 1}, "rt-old-0": {"aws-01", 0}} {
		r := l.replies(id)[0]
		if r.Binding == nil || r.Binding.Name != want.binding || want.clusters > 0 && *r.Clusters != want.clusters || r.Binding.Claimed {
			t.Errorf("%s is answered %s %+v with %v clusters, want %+v", id, r.Status, r.Binding, r.Clusters, want)
		}
	}
	if r := l.replies("rt-fresh")[0]; r.Binding == nil || r.Binding.Name != "aws-05" && r.Binding.Name != "aws-06" || !r.Binding.Claimed {
		t.Errorf("a new tenant is answered %s %+v", r.Status, r.Binding)
	}

	// An adopted runtime goes: once its Shoot is away, its account becomes dirty.
	l.remove(shootsResource, "only")
	l.deprovision(goes("only", "ga-one"))
	l.deprovision(events.Event{
		Type: events.TypeDeprovision, ID: "bye-label", Source: "/integration", RuntimeID: "rt-label",
		Deprovision: &events.Deprovision{RuntimeID: "rt-label", GlobalAccountID: "ga-old"},
	})
	l.flush()
	l.awaitSettled()
	if r := l.replies("only")[0]; r.Status != events.StatusReleased || r.Binding == nil || r.Binding.Name != "aws-04" || !r.MarkedDirty {
		t.Errorf("the deprovision of an adopted runtime is answered %+v", r)
	}
	if b := l.binding("aws-04"); !b.Dirty || b.Tenant != "ga-one" {
		t.Errorf("its account is %+v", b)
	}
	if r := l.replies("rt-label")[0]; r.Binding == nil || *r.Clusters != many+2 || r.MarkedDirty || r.Draining {
		t.Errorf("the deprovision of one of many is answered %+v", r)
	}
}

// shootOf makes a Shoot on a binding with whatever else its metadata have.
func (l *landscape) shootOf(name, binding string, metadata map[string]any) {
	l.t.Helper()
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["name"] = name
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": metadata,
		"spec": map[string]any{"credentialsBindingName": binding},
	}}
	if _, err := l.api.Resource(shootsResource).Namespace(l.stack.Target.Namespace).Create(l.ctx, o, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// TestTwoRebuildAtOnce lets two rebuild side by side, neither waiting for the
// other: each pool is installed once and as a whole.
func TestTwoRebuildAtOnce(t *testing.T) {
	t.Parallel()
	const runtimes = 2000
	s := startStack(t, stack.Options{Kube: sharedStack(t).Kube, Config: []byte("gardener: {namespace: garden-twice}\n"), Accounts: rebuildAccountsOf()})
	one, store := rebuilder(t, s)
	other, _ := rebuilder(t, s)
	fillLedger(t, s, runtimes)
	installed := make(chan observe.Rebuild, 100)
	for _, r := range []*rebuild.Rebuilder{one, other} {
		r.Lease = 900 * time.Microsecond // less than Redis counts in: each takes the other's token away as soon as it looks
		r.Observer.OnRebuild = func(_ context.Context, i observe.Rebuild) { installed <- i }
	}
	for round := range 5 {
		if err := s.Redis.Lose(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 2)
		for _, r := range []*rebuild.Rebuilder{one, other} {
			go func() { ended <- r.Ensure(t.Context()) }()
		}
		for range 2 {
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		buckets, pools := 0, map[string]int{}
		for len(installed) > 0 {
			i := <-installed
			buckets += i.Buckets
			for _, pool := range i.Pools {
				pools[pool]++
			}
		}
		if buckets != account.Buckets || len(pools) != len(rebuildPools) {
			t.Errorf("round %d: %d buckets and the pools %v were installed", round, buckets, pools)
		}
		for _, pool := range rebuildPools {
			status, err := store.Status(t.Context(), pool)
			if err != nil || status.Runtimes != runtimes/len(rebuildPools) || status.Bindings != rebuildAccounts || pools[pool] != 1 {
				t.Errorf("round %d: pool %s is %+v, %v; installed %d times", round, pool, status, err, pools[pool])
			}
		}
	}
}

// TestKilledInARebuild kills a worker at each step of a rebuild: the next one
// takes the rebuild over.
func TestKilledInARebuild(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, roomyAccounts(12))
	random := newRandom(t)
	for n := range 40 {
		e := randomProvision(random, n)
		e.Provision.GlobalAccountID = fmt.Sprintf("ga-%02d", n%12)
		l.publish(e, "")
	}
	l.flush()
	goOn(t, l.stack, l.publisher)
	for n, step := range observe.RebuildSteps() {
		t.Run(string(step), func(t *testing.T) {
			if err := l.stack.Redis.Lose(t.Context()); err != nil {
				t.Fatal(err)
			}
			late := ask(fmt.Sprintf("late-%d", n), fmt.Sprintf("ga-%02d", n))
			l.provision(late)
			killedAt(t, l.stack, step)
			goOn(t, l.stack, l.publisher)
			if r := l.replies(late.RuntimeID); len(r) != 1 || r[0].Status != events.StatusAssigned {
				t.Errorf("what was asked meanwhile is answered %+v", r)
			}
			l.check(t)
		})
	}
	l.agrees(checker.Terms{OneAccount: true})
}
