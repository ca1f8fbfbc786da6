package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/retention"
)

// retaining is the retention of a worker that forgets when the test says so, and
// whatever was released before that.
type retaining struct{ of chan *retention.Purger }

func newRetaining() retaining { return retaining{of: make(chan *retention.Purger, 1)} }

// take is the value of daemon.Options.Retention. Redis has to answer within half of
// Settle, on a busy machine too.
func (r retaining) take(of *retention.Purger) {
	of.Keep, of.Every, of.Settle = time.Nanosecond, 1000*time.Hour, 2*time.Second
	own := *of // the worker goes on with its own
	r.of <- &own
}

// once forgets what there is to forget.
func (r retaining) once(ctx context.Context) (last observe.Retention) {
	of := <-r.of
	defer func() { r.of <- of }()
	once, tell := *of, of.Observer.OnRetention
	once.Observer.OnRetention = func(ctx context.Context, i observe.Retention) {
		tell(ctx, i)
		last = i
	}
	once.Once(ctx)
	return last
}

// forget is once where there must be something.
func (r retaining) forget(ctx context.Context) error {
	pass := r.once(ctx)
	if pass.Err == nil && (pass.Purged == 0 || pass.Forgotten == 0) {
		return fmt.Errorf("nothing is forgotten: %v", pass.LogValue())
	}
	return pass.Err
}

// traces are what is known of a runtime.
func (l *landscape) traces(from checker.Sources, runtime string) (found []string) {
	l.t.Helper()
	err := storage.NewLedger(l.js, l.subjects, "/integration").OfRuntime(l.ctx, runtime, func(s events.Stored) error {
		found = append(found, string(s.Reply.Status))
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	place, err := from.Counters.Place(l.ctx, runtime)
	if err != nil {
		l.t.Fatal(err)
	}
	if place != (account.Place{}) {
		found = append(found, "entry")
	}
	rt, err := from.Counters.RuntimeIn(l.ctx, "aws", runtime)
	if err != nil {
		l.t.Fatal(err)
	}
	if rt.State != "" {
		found = append(found, string(rt.State))
	}
	return found
}

// TestReleasedRuntimesAreForgotten is a runtime from its provision until nothing is
// known of it any more, beside others that stay; a second life of it is like the first.
func TestReleasedRuntimesAreForgotten(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 3))
	old := newRetaining()
	w := l.work(daemon.Options{Retention: old.take})
	from := sources(t, l.stack, l.js, l.subjects)
	verify := func() {
		t.Helper()
		out, _ := operatorOf(t, l)(0, "counters", "verify", "-o", "json")
		var v verified
		if err := json.Unmarshal([]byte(out), &v); err != nil || len(v.Drifts) > 0 || len(v.NotBuilt) > 0 {
			t.Errorf("%v: %s", err, out)
		}
	}
	living, lodged, gone := ask("rt-living", "ga-1"), ask("rt-lodged", "ga-2"), ask("rt-gone", "ga-1")
	for _, e := range []events.Event{living, lodged, gone} {
		l.provision(e)
		l.assigned(e)
	}
	l.shoot(lodged.RuntimeID, l.assigned(lodged))
	for _, e := range []events.Event{lodged, gone} {
		l.left(goes(e.RuntimeID, e.Provision.GlobalAccountID))
	}
	l.left(goes("rt-nobody", ""))
	l.awaitSettled()
	kept := map[string][]string{}
	for _, e := range []events.Event{living, lodged} {
		kept[e.RuntimeID] = l.traces(from, e.RuntimeID)
	}

	pass := old.once(l.ctx)
	if pass.Err != nil || pass.Purged != 2 || pass.Forgotten != 3 || pass.Kept[observe.KeptShoot] != 1 {
		t.Errorf("the pass: %v", pass.LogValue())
	}
	for _, runtime := range []string{gone.RuntimeID, "rt-nobody"} {
		if found := l.traces(from, runtime); len(found) > 0 {
			t.Errorf("of %s there is %v", runtime, found)
		}
	}
	for runtime, want := range kept {
		if found := l.traces(from, runtime); len(want) < 3 || !slices.Equal(found, want) {
			t.Errorf("of %s there is %v, before %v", runtime, found, want)
		}
	}
	l.shows(w, "hap_ledger_purged_total", "2")
	verify()

	again := gone
	again.ID = "req-again"
	l.provision(again)
	if got, want := l.assigned(again), l.assigned(living); got != want {
		t.Errorf("the second life is on %s, its tenant's account is %s", got, want)
	}
	// What the ledger does not say any more, a rebuild does not need.
	if err := l.stack.Redis.Lose(l.ctx); err != nil {
		t.Fatal(err)
	}
	late := ask("rt-late", "ga-1")
	l.provision(late)
	l.assigned(late)
	l.awaitSettled()
	verify()
	if found := l.traces(from, again.RuntimeID); !slices.Equal(found, []string{"assigned", "entry", "assigned"}) {
		t.Errorf("of the second life there is %v", found)
	}
}

// dying is a Redis that is away when a pass comes to the records.
type dying struct{ *counters.Store }

var errAway = errors.New("away")

func (dying) Forget(context.Context, string, string, int64) (bool, error) { return false, errAway }

// TestForgettingIsFinished is a pass that ends between the ledger and Redis: what it
// left is found again, also by another worker.
func TestForgettingIsFinished(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	first, second := newRetaining(), newRetaining()
	l.work(daemon.Options{Retention: func(r *retention.Purger) {
		r.Records = dying{r.Records.(*counters.Store)}
		first.take(r)
	}})
	l.work(daemon.Options{Retention: second.take})
	from := sources(t, l.stack, l.js, l.subjects)
	living, gone := ask("rt-living", "ga-1"), ask("rt-gone", "ga-1")
	for _, e := range []events.Event{living, gone} {
		l.provision(e)
		l.assigned(e)
	}
	l.left(goes(gone.RuntimeID, "ga-1"))
	l.awaitSettled()
	if pass := first.once(l.ctx); !errors.Is(pass.Err, errAway) || pass.Purged != 1 {
		t.Fatalf("the first pass: %v", pass.LogValue())
	}
	if found := l.traces(from, gone.RuntimeID); !slices.Equal(found, []string{"entry", "gone"}) {
		t.Errorf("the first pass left %v", found)
	}
	if pass := second.once(l.ctx); pass.Err != nil || pass.Purged != 0 || pass.Forgotten != 2 {
		t.Errorf("the second pass: %v", pass.LogValue())
	}
	if found := l.traces(from, gone.RuntimeID); len(found) > 0 {
		t.Errorf("the second pass left %v", found)
	}
}
