package integration_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/shadows"
)

// TestShadow is a broker that decides in its own way, and a shadow beside it: every
// way to agree and to differ is counted once and shown by hapctl, a difference leads
// to no other one, and the shadow has written nothing but what is its own.
func TestShadow(t *testing.T) {
	t.Parallel()
	var free []string
	all := append(accounts("aws", 12), accounts("azure", 2)...)
	for _, a := range all[:12] {
		free = append(free, a.Name)
	}
	all = append(all, stack.Account{Name: "old", HyperscalerType: "aws", Labels: map[string]string{"tenantName": "ga-old"}},
		stack.Account{Name: "s-1", HyperscalerType: "aws", Labels: map[string]string{"shared": "true"}},
		stack.Account{Name: "s-2", HyperscalerType: "aws", Labels: map[string]string{"shared": "true"}})
	b := newBroker(t, all)
	b.shoot("rt-old", "old")
	b.shoot("rt-s", "s-1")
	// There is no worker: the shadow takes the events.
	if err := b.js.DeleteConsumer(b.ctx, events.StreamEvents, events.ConsumerWorker); err != nil {
		t.Fatal(err)
	}
	inbox, err := b.nc.SubscribeSync("_INBOX.keb")
	if err != nil {
		t.Fatal(err)
	}
	mode := []string{"HAP_WORKER_MODE=shadow", "HAP_WORKER_SHADOW_INTERVAL=1s"}
	first := b.work(daemon.Options{Env: mode})
	counted := map[shadows.ComparisonResult]int{}
	// decides publishes a request and returns the account that the shadow would take.
	decides := func(e events.Event) string {
		t.Helper()
		e.ReplyTo = "_INBOX.keb"
		e.Provision.ReplyTo = e.ReplyTo
		b.provision(e)
		if r := b.wouldAnswer(e); r.Binding != nil {
			return r.Binding.Name
		}
		return ""
	}
	ends := func(e events.Event, keb string, want shadows.ComparisonResult) {
		t.Helper()
		b.shoot(e.RuntimeID, keb)
		b.compared(e, want)
		counted[want]++
	}

	// The second cluster of a tenant goes onto the account that it has.
	same := ask("rt-same", "ga-old")
	if on := decides(same); on != "old" {
		t.Errorf("%s: the shadow takes %s", same.RuntimeID, on)
	}
	ends(same, "old", shadows.ResultSame)
	b.follows("aws", "old", account.InUse, "ga-old", 2)

	// The broker takes another unclaimed account; the next cluster follows it there.
	fresh := ask("rt-new", "ga-new")
	taken := another(free, decides(fresh))
	b.claims(taken, "ga-new")
	ends(fresh, taken, shadows.ResultEquivalent)
	b.follows("aws", taken, account.InUse, "ga-new", 1)
	next := ask("rt-next", "ga-new")
	if on := decides(next); on != taken {
		t.Errorf("%s: the shadow takes %s, the tenant has %s", next.RuntimeID, on, taken)
	}
	ends(next, taken, shadows.ResultSame)

	// The broker is faster with its label.
	labelled := another(free, taken)
	b.claims(labelled, "ga-fast")
	b.follows("aws", labelled, account.InUse, "ga-fast", 0)
	quick := ask("rt-fast", "ga-fast")
	if on := decides(quick); on != labelled {
		t.Errorf("%s: the shadow takes %s, the tenant has %s", quick.RuntimeID, on, labelled)
	}
	b.shoot(quick.RuntimeID, labelled)
	b.compared(quick, shadows.ResultFollowed)
	counted[shadows.ResultFollowed]++
	b.follows("aws", labelled, account.InUse, "ga-fast", 1)

	// It claims where the tenant has room, and it fills beyond the limit.
	shares := ask("rt-shares", "ga-fast")
	if on := decides(shares); on != labelled {
		t.Errorf("%s: the shadow takes %s, want %s", shares.RuntimeID, on, labelled)
	}
	second := another(free, taken, labelled)
	b.claims(second, "ga-fast")
	ends(shares, second, shadows.ResultShares)
	b.follows("aws", second, account.InUse, "ga-fast", 1)
	full := ask("rt-full", "ga-old")
	if on := decides(full); on == "old" {
		t.Errorf("%s: the shadow takes an account at its limit", full.RuntimeID)
	}
	ends(full, "old", shadows.ResultClaims)
	b.follows("aws", "old", account.InUse, "ga-old", 3)

	// It takes the other one of two accounts that a tenant has.
	other := ask("rt-other", "ga-fast")
	ends(other, another([]string{labelled, second}, decides(other)), shadows.ResultOtherAccount)
	// Of a shared pool it takes the fuller one.
	shared := withPlan(ask("rt-shared", "ga-trial"), "trial")
	if on := decides(shared); on != "s-2" {
		t.Errorf("%s: the shadow takes %s, want the less used s-2", shared.RuntimeID, on)
	}
	ends(shared, "s-1", shadows.ResultOtherAccount)

	// It takes one of another pool, one of another tenant, and one where the shadow
	// has none to give.
	pool := withPlan(ask("rt-pool", "ga-old"), "azure")
	decides(pool)
	ends(pool, "old", shadows.ResultOtherPool)
	foreign := ask("rt-foreign", "ga-x")
	decides(foreign)
	ends(foreign, "old", shadows.ResultOtherTenant)
	// Redis is derived anew after a comparison. One that read the Shoot of a request that waits
	// before it is compared would have it served in the account's pool.
	b.follows("aws", "old", account.InUse, "ga-old", 5)
	waits := withPlan(ask("rt-waits", "ga-old"), "gcp")
	if r := b.wouldAnswer(func() events.Event { decides(waits); return waits }()); r.Status != events.StatusWaiting {
		t.Errorf("%s: %s", waits.RuntimeID, r.Status)
	}
	ends(waits, "old", shadows.ResultNotAssigned)
	b.follows("aws", "old", account.InUse, "ga-old", 6)
	for result, n := range counted {
		if got := first.metric(fmt.Sprintf("hap_shadow_comparisons_total{mode=\"shadow\",result=%q}", result)); got != fmt.Sprint(n) {
			t.Errorf("%s is counted %s times, want %d", result, got, n)
		}
	}

	// The account that all clusters have left is cleaned by the broker's own job.
	for _, e := range []events.Event{fresh, next} {
		b.remove(shootsResource, "c-"+e.RuntimeID)
		b.depart(goes(e.RuntimeID, "ga-new"))
	}
	b.marks(taken, map[string]any{"dirty": "true"})
	b.follows("aws", taken, account.Dirtying, "ga-new", 0)
	b.marks(taken, map[string]any{"dirty": nil, "tenantName": nil})
	b.follows("aws", taken, account.Free, "", 0)

	// While no shadow runs, nothing is lost; and what never shows is not waited for
	// without end.
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	late, nowhere, never := ask("rt-late", "ga-late"), ask("rt-nowhere", "ga-y"), ask("rt-never", "ga-z")
	neither := withPlan(ask("rt-neither", "ga-z"), "unheard-of")
	b.provision(late, nowhere, never, neither)
	b.claims(taken, "ga-late")
	b.shoot(late.RuntimeID, taken)
	b.shoot(nowhere.RuntimeID, "nowhere")
	b.work(daemon.Options{Env: append(mode, "HAP_WORKER_SHADOW_PATIENCE=3s")})
	for e, want := range map[*events.Event]shadows.ComparisonResult{
		&late: shadows.ResultLate, &nowhere: shadows.ResultUnknownAccount, &never: shadows.ResultNoCluster, &neither: shadows.ResultNeither,
	} {
		b.compared(*e, want)
		counted[want]++
	}

	b.showsDifferences(counted)
	b.untouched()
	if msg, err := inbox.NextMsg(1); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("the publisher was sent %v, %v", msg, err)
	}
}

// TestShadowBesideWorker is a landscape that goes over: a shadow has the events
// until the first worker comes, which takes them over and is not disturbed. What the
// worker assigns is then what the shadow, which listens, compares with.
func TestShadowBesideWorker(t *testing.T) {
	t.Parallel()
	b := newBroker(t, accounts("aws", 4))
	if err := b.js.DeleteConsumer(b.ctx, events.StreamEvents, events.ConsumerWorker); err != nil {
		t.Fatal(err)
	}
	s := b.work(daemon.Options{Env: []string{"HAP_WORKER_MODE=shadow", "HAP_WORKER_SHADOW_INTERVAL=1s"}})
	alone := ask("rt-alone", "ga-alone")
	b.provision(alone)
	on := b.wouldAnswer(alone).Binding.Name
	b.claims(on, "ga-alone")
	b.shoot(alone.RuntimeID, on)
	b.compared(alone, shadows.ResultSame)
	delete(b.published, alone.RuntimeID) // no worker was asked to answer it
	b.work(daemon.Options{})
	if _, err := b.js.Consumer(b.ctx, events.StreamEvents, events.ConsumerShadow); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("the shadow's consumer is there beside the worker's: %v", err)
	}
	var asked []events.Event
	for n := range 6 {
		asked = append(asked, ask(fmt.Sprintf("rt-%d", n), fmt.Sprintf("ga-%d", n/2)))
	}
	// The shadow listens as soon as it has noticed.
	b.says(s, "the shadow listens")
	for _, e := range asked {
		b.provision(e)
		on := b.assigned(e)
		b.wouldAnswer(e)
		b.shoot(e.RuntimeID, on)
	}
	for _, e := range asked {
		if c := b.comparison(e); c.Result.Differs() {
			t.Errorf("%s: %s, %s", e.RuntimeID, c.Result, c.Message)
		}
	}
	b.awaitSettled()
	b.holds(checker.Terms{Limit: 2})
}
