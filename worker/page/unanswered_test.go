package page

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/queued"
)

// TestSearchOfStreamsIsBounded: of a stream without subjects to search by, so many of the newest messages are read,
// once for all searches within a second, and the page says that there are more.
func TestSearchOfStreamsIsBounded(t *testing.T) {
	t.Parallel()
	l := demo()
	l.letters, l.queued = nil, nil
	for i := range 1000 {
		e := events.Event{ID: fmt.Sprint("q-", i), Deprovision: &events.Deprovision{GlobalAccountID: "ga-many"}}
		l.letters = append(l.letters, dead.Letter{Number: uint64(i), StoredAt: noon, Code: engine.CodeInvalidEvent, Event: e})
		l.queued = append(l.queued, queued.Event{Event: e, Published: noon})
	}
	p, _ := newPage(t, l, nil)
	now := noon
	p.now = func() time.Time { return now }
	for range 5 {
		body := get(t, p, "/find?q=ga-many").Body.String()
		for _, want := range []string{
			"Of HAP_DEAD the newest 200 messages only are searched, back to 2026-11-20 11:00:05: hapctl explain --newest reads more.", "Of HAP_EVENTS the newest 200 messages",
			"<code>q-999</code>", "hapctl dead show 980", "and 180 more",
		} {
			if !strings.Contains(body, want) {
				t.Fatalf("the page lacks %q:\n%s", want, body)
			}
		}
		if n := strings.Count(body, "<li><code>q-"); n != 2*foundOfKind || strings.Contains(body, "hapctl dead show 979") {
			t.Errorf("%d letters and events are shown", n)
		}
	}
	if l.searches != 2 {
		t.Errorf("five searches within a second read a stream %d times, want once each", l.searches)
	}
	now = now.Add(atMostEvery)
	if w := get(t, p, "/find?q=q-10"); w.Code != http.StatusNotFound || l.searches != 4 || !strings.Contains(w.Body.String(), "HAP_DEAD") {
		t.Errorf("a letter that is not read is found, or %d readings, or its bound is not told: %d\n%s", l.searches, w.Code, w.Body)
	}
}

// TestSearchOfStreamsFails: what else is found is shown, and nothing leads on as if that were all.
func TestSearchOfStreamsFails(t *testing.T) {
	t.Parallel()
	l := demo()
	p, _ := newPage(t, l, nil)
	s := *p.sources.Load()
	l.closed = errors.New("no responders")
	p.Connect(s)
	w := get(t, p, "/find?q=aws-1")
	for _, want := range []string{"searching HAP_DEAD: no responders", "searching HAP_EVENTS: no responders", `<a href="/accounts/aws-1">`} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d, want %q:\n%s", w.Code, want, w.Body)
		}
	}
}

// TestHostileLetters: everything in a dead letter or an event is chosen by its sender. It is escaped and cut,
// and makes no link to anywhere else.
func TestHostileLetters(t *testing.T) {
	t.Parallel()
	const script = `"><script>alert(1)</script>`
	long := script + strings.Repeat("x", 250_000)
	l := demo()
	hostile := events.Event{ID: "q-hostile", RuntimeID: long, Binding: "../../find?q=" + long, Type: events.Type(long), Deprovision: &events.Deprovision{GlobalAccountID: "//evil.example/" + long}}
	named := hostile
	named.ID, named.RuntimeID = script, "\xff\xfe"
	for range 3 {
		l.letters = append(l.letters, dead.Letter{Code: engine.Code(long), Event: hostile}, dead.Letter{Code: "x", Event: named})
		l.queued = append(l.queued, queued.Event{Event: hostile}, queued.Event{Event: named})
	}
	p, _ := newPage(t, l, nil)
	for _, query := range []string{"q-hostile", script} {
		body := shown(get(t, p, "/find?q="+url.QueryEscape(query)))
		if !strings.HasPrefix(body, "200") || strings.Contains(body, "<script>") || strings.Contains(body, `href="//`) || strings.Contains(body, `href="..`) || len(body) > 30_000 {
			t.Errorf("%s: %d bytes:\n%s", query, len(body), body[:min(len(body), 4000)])
		}
		if n := strings.Count(body, "&lt;script&gt;"); n < 6 {
			t.Errorf("%s: %d names are shown:\n%s", query, n, body)
		}
	}
}
