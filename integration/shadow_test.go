package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/cmd/operator"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// shadowRules let every tenant have several accounts of two clusters each.
const shadowRules = `
hap:
  rule: [aws, azure, gcp, trial -> S, "sap-converged-cloud -> HR, S", azure_lite, preview, free]
  multiHyperscalerAccount: {allowedGlobalAccounts: ["*"], limits: {default: 2}}
  plans: {trial: {providers: [aws], default: aws}}
`

// broker is a KEB that decides by itself: it labels accounts and creates Shoots.
type broker struct {
	*landscape
	shadow   events.Subjects
	versions map[string]string // of every binding, as it was made or as the broker left it
}

func newBroker(t *testing.T, accounts []stack.Account) *broker {
	t.Helper()
	b := &broker{landscape: newLandscape(t, shadowRules, accounts), versions: map[string]string{}}
	b.shadow = b.subjects.Shadow()
	maps.Copy(b.versions, b.current())
	return b
}

// current are the resourceVersions of all bindings.
func (b *broker) current() map[string]string {
	b.t.Helper()
	list, err := b.api.Resource(bindingsResource).Namespace(b.stack.Target.Namespace).List(b.ctx, metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	versions := map[string]string{}
	for _, item := range list.Items {
		versions[item.GetName()] = item.GetResourceVersion()
	}
	return versions
}

// marks writes labels as the broker does; nil takes one off.
func (b *broker) marks(binding string, labels map[string]any) {
	b.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		b.t.Fatal(err)
	}
	written, err := b.api.Resource(bindingsResource).Namespace(b.stack.Target.Namespace).
		Patch(b.ctx, binding, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.versions[binding] = written.GetResourceVersion()
}

func (b *broker) claims(binding, tenant string) {
	b.marks(binding, map[string]any{"tenantName": tenant})
}

// wouldAnswer is what the shadow would answer: it is not compared before the Shoot is there.
func (b *broker) wouldAnswer(e events.Event) events.Reply {
	b.t.Helper()
	ledger := events.NewLedger(b.js, b.shadow, "/integration")
	var r events.Reply
	eventually(b.ctx, b.t, func() error {
		stored, found, err := ledger.Last(b.ctx, e.ReplySubject(b.shadow))
		if r = stored.Reply; err == nil && (!found || r.Status == events.StatusSealed) {
			err = fmt.Errorf("the shadow has decided nothing for %s", e.RuntimeID)
		}
		return err
	})
	return r
}

// compared waits for the comparison of an event.
func (b *broker) compared(e events.Event, want events.ComparisonResult) {
	b.t.Helper()
	c := b.comparison(e)
	if c.Result != want {
		b.t.Errorf("%s: %s (%s), want %s: %+v", e.RuntimeID, c.Result, c.Message, want, c.Reply.Decision)
	}
}

func (b *broker) comparison(e events.Event) events.Comparison {
	b.t.Helper()
	var found *events.Comparison
	eventually(b.ctx, b.t, func() error {
		err := events.NewComparisons(b.js, b.shadow).Each(b.ctx, func(c events.Comparison) error {
			if c.Reply.RequestID == e.ID {
				found = &c
			}
			return nil
		})
		if err == nil && found == nil {
			err = fmt.Errorf("%s is not compared", e.RuntimeID)
		}
		return err
	})
	return *found
}

// follows waits until the shadow's Redis has so many runtimes on a binding.
func (b *broker) follows(pool, binding string, state account.State, tenant string, runtimes int) {
	b.t.Helper()
	store := counters.New(b.byHand(), "hap-shadow")
	eventually(b.ctx, b.t, func() error {
		rec, err := store.Binding(b.ctx, pool, binding)
		if err == nil && (rec.State != state || rec.Tenant != tenant || rec.Count != runtimes) {
			err = fmt.Errorf("the shadow has %s as %+v, want %s of %q with %d", binding, rec, state, tenant, runtimes)
		}
		return err
	})
}

func withPlan(e events.Event, plan string) events.Event {
	e.Provision.Plan = plan
	return e
}

// one of the bindings that is none of these.
func another(from []string, not ...string) string {
	return from[slices.IndexFunc(from, func(name string) bool { return !slices.Contains(not, name) })]
}

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
	counted := map[events.ComparisonResult]int{}
	// decides publishes a request and gives the account that the shadow would take.
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
	ends := func(e events.Event, keb string, want events.ComparisonResult) {
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
	ends(same, "old", events.ResultSame)
	b.follows("aws", "old", account.InUse, "ga-old", 2)

	// The broker takes another unclaimed account; the next cluster follows it there.
	fresh := ask("rt-new", "ga-new")
	taken := another(free, decides(fresh))
	b.claims(taken, "ga-new")
	ends(fresh, taken, events.ResultEquivalent)
	b.follows("aws", taken, account.InUse, "ga-new", 1)
	next := ask("rt-next", "ga-new")
	if on := decides(next); on != taken {
		t.Errorf("%s: the shadow takes %s, the tenant has %s", next.RuntimeID, on, taken)
	}
	ends(next, taken, events.ResultSame)

	// The broker is faster with its label.
	labelled := another(free, taken)
	b.claims(labelled, "ga-fast")
	b.follows("aws", labelled, account.InUse, "ga-fast", 0)
	quick := ask("rt-fast", "ga-fast")
	if on := decides(quick); on != labelled {
		t.Errorf("%s: the shadow takes %s, the tenant has %s", quick.RuntimeID, on, labelled)
	}
	b.shoot(quick.RuntimeID, labelled)
	b.compared(quick, events.ResultFollowed)
	counted[events.ResultFollowed]++
	b.follows("aws", labelled, account.InUse, "ga-fast", 1)

	// It claims where the tenant has room, and it fills beyond the limit.
	shares := ask("rt-shares", "ga-fast")
	if on := decides(shares); on != labelled {
		t.Errorf("%s: the shadow takes %s, want %s", shares.RuntimeID, on, labelled)
	}
	second := another(free, taken, labelled)
	b.claims(second, "ga-fast")
	ends(shares, second, events.ResultShares)
	b.follows("aws", second, account.InUse, "ga-fast", 1)
	full := ask("rt-full", "ga-old")
	if on := decides(full); on == "old" {
		t.Errorf("%s: the shadow takes an account at its limit", full.RuntimeID)
	}
	ends(full, "old", events.ResultClaims)
	b.follows("aws", "old", account.InUse, "ga-old", 3)

	// It takes the other one of two accounts that a tenant has.
	other := ask("rt-other", "ga-fast")
	ends(other, another([]string{labelled, second}, decides(other)), events.ResultOtherAccount)
	// Of a shared pool it takes the fuller one.
	shared := withPlan(ask("rt-shared", "ga-trial"), "trial")
	if on := decides(shared); on != "s-2" {
		t.Errorf("%s: the shadow takes %s, want the less used s-2", shared.RuntimeID, on)
	}
	ends(shared, "s-1", events.ResultOtherAccount)

	// It takes one of another pool, one of another tenant, and one where the shadow
	// has none to give.
	pool := withPlan(ask("rt-pool", "ga-old"), "azure")
	decides(pool)
	ends(pool, "old", events.ResultOtherPool)
	foreign := ask("rt-foreign", "ga-x")
	decides(foreign)
	ends(foreign, "old", events.ResultOtherTenant)
	waits := withPlan(ask("rt-waits", "ga-old"), "gcp")
	if r := b.wouldAnswer(func() events.Event { decides(waits); return waits }()); r.Status != events.StatusWaiting {
		t.Errorf("%s: %s", waits.RuntimeID, r.Status)
	}
	ends(waits, "old", events.ResultNotAssigned)
	b.follows("aws", "old", account.InUse, "ga-old", 6)
	for result, n := range counted {
		if got := first.metric(fmt.Sprintf("hap_shadow_comparisons_total{result=%q}", result)); got != fmt.Sprint(n) {
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
	for e, want := range map[*events.Event]events.ComparisonResult{
		&late: events.ResultLate, &nowhere: events.ResultUnknownAccount, &never: events.ResultNoCluster, &neither: events.ResultNeither,
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

// showsDifferences holds hapctl against what was counted.
func (b *broker) showsDifferences(counted map[events.ComparisonResult]int) {
	b.t.Helper()
	out := b.hapctlDiffers("-o", "json")
	var v struct {
		Comparisons []struct {
			RuntimeID string
			Result    events.ComparisonResult
			Reply     events.Reply
		}
		Summary     map[events.ComparisonResult]int
		Differences int
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		b.t.Fatal(err)
	}
	differences := 0
	for result, n := range counted {
		if v.Summary[result] != n {
			b.t.Errorf("hapctl has %s %d times, want %d", result, v.Summary[result], n)
		}
		if result.Differs() {
			differences += n
		}
	}
	if v.Differences != differences || len(v.Comparisons) != differences || len(v.Summary) != len(counted) {
		b.t.Errorf("hapctl has %d differences and lists %d, want %d:\n%s", v.Differences, len(v.Comparisons), differences, out)
	}
	for _, c := range v.Comparisons {
		if c.Reply.Decision == nil || c.Reply.Decision.Rule == "" || c.Reply.Decision.Times == nil {
			b.t.Errorf("the decision record of %s is %+v", c.RuntimeID, c.Reply.Decision)
		}
	}
	if out := b.hapctlDiffers("--runtime", "rt-pool"); !strings.Contains(out, "the shadow by rule azure from pool azure; KEB from pool aws") {
		b.t.Errorf("hapctl says\n%s", out)
	}
}

// hapctlDiffers runs hapctl migrate compare, which is to find a difference.
func (b *broker) hapctlDiffers(args ...string) string {
	b.t.Helper()
	var out, talk bytes.Buffer
	args = append([]string{"migrate", "compare", "--config", b.stack.Config}, args...)
	if code := operator.Run(b.ctx, args, strings.NewReader(""), &out, &talk); code != 5 {
		b.t.Fatalf("hapctl %v: exit code %d, %s%s", args, code, out.String(), talk.String())
	}
	return out.String()
}

// untouched fails the test if anything was written that is not the shadow's own.
func (b *broker) untouched() {
	b.t.Helper()
	for name, version := range b.current() {
		if version != b.versions[name] {
			b.t.Errorf("binding %s has resourceVersion %s, the broker left it at %s", name, version, b.versions[name])
		}
	}
	keys, err := b.byHand().Keys(b.ctx, "*").Result()
	if err != nil || len(keys) == 0 {
		b.t.Errorf("keys in Redis: %v, %v", keys, err)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, "hap-shadow:") {
			b.t.Errorf("key %s in Redis", key)
		}
	}
	for _, name := range []string{events.StreamReplies, events.StreamWaiting, events.StreamDead} {
		stream, err := b.js.Stream(b.ctx, name)
		if err != nil {
			b.t.Fatal(err)
		}
		if state := stream.CachedInfo().State; state.LastSeq != 0 {
			b.t.Errorf("stream %s had %d messages", name, state.LastSeq)
		}
	}
	eventually(b.ctx, b.t, func() error {
		stream, err := b.js.Stream(b.ctx, events.StreamEvents)
		if err == nil && stream.CachedInfo().State.Msgs != 0 {
			err = fmt.Errorf("%d events are left", stream.CachedInfo().State.Msgs)
		}
		return err
	})
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
	b.compared(alone, events.ResultSame)
	delete(b.published, alone.RuntimeID) // nobody was asked to answer it
	b.work(daemon.Options{})
	if _, err := b.js.Consumer(b.ctx, events.StreamEvents, events.ConsumerShadow); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("the shadow's consumer is there beside the worker's: %v", err)
	}
	var asked []events.Event
	for n := range 6 {
		asked = append(asked, ask(fmt.Sprintf("rt-%d", n), fmt.Sprintf("ga-%d", n/2)))
	}
	// The shadow listens as soon as it has noticed.
	eventually(b.ctx, t, func() error {
		if !strings.Contains(s.log.String(), "the shadow listens") {
			return errors.New("the shadow does not listen")
		}
		return nil
	})
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
