package page

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// distressed has a pool of each urgency, and requests for one that has no account at all.
func distressed() (*landscape, func(visit func(string, float64))) {
	l := emptyLandscape()
	add := func(name string, accounts, used int) {
		of := engine.ParsePool(name)
		l.status[name] = account.Status{Built: true}
		for i := range accounts {
			rec := account.Record{}
			if i < used {
				rec = account.Record{State: account.InUse, Tenant: fmt.Sprintf("ga-%d", i), Count: 1}
			}
			l.claim(of, fmt.Sprintf("%s-%d", of.HyperscalerType, i), rec)
		}
	}
	add("a-well", 10, 2)
	add("b-low", 10, 2)
	add("c-few", 20, 19)
	add("d-none", 3, 3)
	add("e-waits", 2, 2)
	add("f-lost", 2, 0)
	add("g-paused", 9, 1)
	l.status["f-lost"] = account.Status{}
	l.status["g-paused"] = account.Status{Built: true, Paused: true}
	l.status["e-waits"] = account.Status{Built: true, Waiting: 7}
	wait := func(n int, pool string) {
		for i := range n {
			runtime := fmt.Sprintf("rt-%s-%d", pool, i)
			l.queue[pool] = append(l.queue[pool], account.Waiter{Runtime: runtime})
			l.waiting = append(l.waiting, storage.WaitingRequest{
				Event: events.Event{ID: "q-" + runtime, RuntimeID: runtime, Provision: &events.Provision{GlobalAccountID: "ga-<b>"}},
				Pool:  pool, Reason: events.WaitingPoolEmpty, Since: noon.Add(-time.Minute), Deadline: noon.Add(time.Minute),
			})
		}
	}
	wait(7, "e-waits")
	wait(1, "h-unlabelled")
	return l, func(visit func(string, float64)) {
		visit("a-well", math.Inf(1))
		visit("b-low", 3*3600)
		visit("c-few", 90*24*3600)
		visit("d-none", 0)
	}
}

var rows = regexp.MustCompile(`(?s)<li class="(\w+)">\s*<div class="poolname"><a href="/pools/([^"]+)">`)

// TestThePoolsThatNeedAnOperatorComeFirst looks at pools in all states.
func TestThePoolsThatNeedAnOperatorComeFirst(t *testing.T) {
	t.Parallel()
	l, left := distressed()
	p, _ := newPage(t, l, nil)
	s := *p.sources.Load()
	s.Exhaustions = left
	p.Connect(s)
	body := get(t, p, "/").Body.String()
	var order []string
	for _, row := range rows.FindAllStringSubmatch(body, -1) {
		order = append(order, row[1]+" "+row[2])
	}
	want := []string{"out e-waits", "out h-unlabelled", "out d-none", "unclear f-lost", "low b-low", "low c-few", "low g-paused", "well a-well"}
	if !slices.Equal(order, want) {
		t.Errorf("the pools come as %v, want %v", order, want)
	}
	for _, want := range []string{
		`<path d="M3.5 0.5`, "</svg>none free", "</svg>not built", "</svg>runs low", "</svg>paused", "no account is labelled for it",
		"empty in <b>3 hours</b>", "empty in <b>90 days</b>", "<b>7 waiting</b>", "and 2 more", "ga-&lt;b&gt;", `aria-label="Waiting for e-waits"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(body, "<code>rt-e-waits-"); n != firstOfPool {
		t.Errorf("%d of a pool's requests are shown, want %d", n, firstOfPool)
	}
	if w := get(t, p, "/pools/h-unlabelled"); w.Code != 200 || !strings.Contains(w.Body.String(), "rt-h-unlabelled-0") {
		t.Errorf("a pool without accounts is %d:\n%s", w.Code, w.Body)
	}
}

// TestAPoolBehindAFlood: no account is labelled for a pool, and its only request is younger than those that are read. It
// is shown all the same, with the place of its request.
func TestAPoolBehindAFlood(t *testing.T) {
	t.Parallel()
	l, _ := distressed()
	behind := len(l.waiting) - 1 // of h-unlabelled
	for i := range mostWaiting {
		runtime := fmt.Sprintf("rt-flood-%d", i)
		l.queue["e-waits"] = append(l.queue["e-waits"], account.Waiter{Runtime: runtime})
		r := l.waiting[0]
		r.Event.ID, r.Event.RuntimeID = "q-"+runtime, runtime
		l.waiting = slices.Insert(l.waiting, behind, r)
	}
	l.status["e-waits"] = account.Status{Built: true, Waiting: 7 + mostWaiting}
	l.status["h-unlabelled"] = account.Status{Built: true, Waiting: 1}
	l.status["i-idle"] = account.Status{Built: true} // neither accounts nor requests
	p, _ := newPage(t, l, nil)
	w := get(t, p, "/pools/h-unlabelled")
	if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, "rt-h-unlabelled-0") || strings.Contains(body, "no place") {
		t.Errorf("it is %d:\n%s", w.Code, w.Body)
	}
	if w := get(t, p, "/pools/i-idle"); w.Code != 404 {
		t.Errorf("a pool without accounts and requests is %d", w.Code)
	}
}

// TestAFloodHidesNoOtherPool: more requests wait for one pool than are read, all older than the requests for
// another.
func TestAFloodHidesNoOtherPool(t *testing.T) {
	t.Parallel()
	l, _ := distressed()
	last := l.waiting[:7]
	l.waiting = nil
	for i := range 200 {
		l.waiting = append(l.waiting, storage.WaitingRequest{
			Event: events.Event{ID: fmt.Sprint("q-", i), RuntimeID: fmt.Sprint("rt-flood-", i), Provision: &events.Provision{GlobalAccountID: "ga-f"}},
			Pool:  "d-none", Reason: events.WaitingPoolEmpty, Since: noon.Add(-time.Hour),
		})
	}
	l.waiting = append(l.waiting, last...)
	l.status["d-none"] = account.Status{Built: true, Waiting: 200}
	p, _ := newPage(t, l, nil)
	body := get(t, p, "/").Body.String()
	for _, want := range []string{"<b>200 or more waiting</b>", "and 195 more", "rt-e-waits-4", "<b>7 or more waiting</b>", "<dt>Waiting</dt><dd>207 or more</dd>"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q:\n%s", want, body)
		}
	}
}

// TestWhatFailsIsNamedSinceWhen: a failing part is listed once, with the time of its first failure, until it
// works.
func TestWhatFailsIsNamedSinceWhen(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t, demo(), nil)
	now, broken := noon, errors.New("the watch is gone "+strings.Repeat("x", 1000))
	p.now = func() time.Time { return now }
	p.cache.now = p.now
	s := *p.sources.Load()
	s.Checks = []Check{{Gardener, func(context.Context) error { return broken }}, {Worker, func(context.Context) error { return nil }}}
	p.Connect(s)
	const since = `Incomplete since <time datetime="2026-11-20T12:00:05Z">12:00:05</time>`
	for range 2 {
		body := get(t, p, "/").Body.String()
		if !strings.Contains(body, since) || !strings.Contains(body, "<strong>Gardener</strong> does not answer") ||
			!strings.Contains(body, "no account is newly claimed") || strings.Contains(body, "<strong>This worker") || strings.Contains(body, strings.Repeat("x", longestFault)) {
			t.Errorf("at %s the page says:\n%s", now, body)
		}
		now = now.Add(time.Minute)
	}
	broken = nil
	if body := get(t, p, "/").Body.String(); strings.Contains(body, "Incomplete") {
		t.Errorf("what is well again is told:\n%s", body)
	}
	now, broken = now.Add(time.Minute), errors.New("again")
	if body := get(t, p, "/").Body.String(); strings.Contains(body, since) || !strings.Contains(body, "Incomplete since") {
		t.Errorf("the second time has the date of the first:\n%s", body)
	}
}

// TestAnOutageBeginsBeforeItsFirstViewer: the time that the page shows is that of the outage, not of the
// first viewer, and an outage that has ended without a viewer is not part of the next one.
func TestAnOutageBeginsBeforeItsFirstViewer(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t, demo(), nil)
	now, broken := noon, errors.New("connection refused")
	p.now = func() time.Time { return now }
	p.cache.now = p.now
	s := *p.sources.Load()
	s.Checks = []Check{{Gardener, func(context.Context) error { return broken }}}
	p.Connect(s)
	unwatched := func(minutes int, err error) {
		broken = err
		for range minutes * 6 {
			p.look(t.Context())
			now = now.Add(watchEvery)
		}
	}
	shows := func(since string) {
		t.Helper()
		if body := get(t, p, "/").Body.String(); !strings.Contains(body, "Incomplete since") || !strings.Contains(body, ">"+since+"</time>") {
			t.Errorf("at %s it does not fail since %s:\n%s", now, since, body)
		}
	}
	unwatched(40, broken)
	shows("12:00:05")
	unwatched(5, nil)
	unwatched(5, errors.New("again"))
	shows("12:45:05")
	shows("12:45:05")
}
