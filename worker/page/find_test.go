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
)

// TestSearchLeads: a search with one hit, or with one exact hit, redirects to it.
func TestSearchLeads(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t, demo(), nil)
	get(t, p, "/") // the ledger is read
	for query, want := range map[string]string{
		"rt-1": "/runtimes/rt-1", "rt-f": "/runtimes/rt-f", "q-f": "/records/rt-f/q-f", "aws-1": "/accounts/aws-1", "ga-4": "/tenants/ga-4",
		"gcp": "/pools/gcp_cf-sa30+eu", " azure-s ": "/accounts/azure-s",
	} {
		w := get(t, p, "/find?q="+url.QueryEscape(query))
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != want {
			t.Errorf("%q leads to %q with %d, want %q", query, got, w.Code, want)
		}
	}
}

// TestSearchIsBounded by the length of the query, the number of concurrent searches, and the number of hits.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t, large(10_000), nil)
	body := get(t, p, "/find?q=aws-").Body.String()
	if n := strings.Count(body, `<li><a href="/accounts/`); n != foundOfKind || !strings.Contains(body, "and 9980 more") {
		t.Errorf("%d accounts are shown:\n%s", n, body[:min(len(body), 3000)])
	}
	if w := get(t, p, "/find?q="+strings.Repeat("x", maxSearched+1)); w.Code != http.StatusBadRequest {
		t.Errorf("a search that is too long is answered %d", w.Code)
	}
	if w := get(t, p, "/find?q=%3Cscript%3Ealert(1)%3C/script%3E"); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "<script>alert") {
		t.Errorf("what was searched is not escaped: %d\n%s", w.Code, w.Body)
	}
	for range maxFinders {
		p.finders.take()
	}
	if w := get(t, p, "/find?q=x"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("one search too many is answered %d", w.Code)
	}
}

// TestThePastIsUnknown: while NATS or Redis fail, the past is shown as unknown, never as empty.
func TestThePastIsUnknown(t *testing.T) {
	t.Parallel()
	l := demo()
	l.down, l.closed = errors.New("no Redis"), errors.New("no responders")
	p, _ := newPage(t, l, nil)
	for path, want := range map[string][]string{
		"/runtimes/rt-none": {"<dt>State</dt><dd>–</dd>", "no Redis", "no responders"},
		"/tenants/ga-none":  {"no responders", `<p class="empty">–</p>`, "Incomplete since"},
		"/accounts/none":    {"no responders", "Incomplete since"},
		"/find?q=rt-none":   {"no Redis", "no responders"},
		"/":                 {"cannot", "<strong>NATS</strong>"},
	} {
		body := get(t, p, path).Body.String()
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s lacks %q:\n%s", path, text, body)
			}
		}
	}
}

// TestNewestAreShown: of more answers than a page shows, it shows the newest, whatever their subjects.
func TestNewestAreShown(t *testing.T) {
	t.Parallel()
	const all = 1200
	l := emptyLandscape()
	put := func(subject string, n int, r events.Reply) {
		l.replies[subject] = events.Stored{Sequence: uint64(n + 1), Time: noon.Add(time.Duration(n) * time.Second), Subject: subject, Reply: r}
	}
	for n := range all {
		id := fmt.Sprintf("%04d", n)
		put("hap.v1.reply.rt-1.q-"+id, n, events.Reply{RequestID: "q-" + id, RuntimeID: "rt-1", Status: events.StatusAssigned})
	}
	for n := range all {
		id := fmt.Sprintf("%04d", n*7%all) // in another order than the subjects
		put("hap.v1.reply.rt-"+id+".same", n, events.Reply{RequestID: "same", RuntimeID: "rt-" + id, Status: events.StatusAssigned})
		put("hap.v1.reply._binding.aws-1.r-"+id, n, events.Reply{RequestID: "r-" + id, Status: events.StatusReturned, Binding: &events.Binding{Name: "aws-1"}})
	}
	p, _ := newPage(t, l, nil)
	for path, c := range map[string]struct {
		newest, left string
		more         int
	}{
		"/runtimes/rt-1":  {"/records/rt-1/q-1199", "/records/rt-1/q-1139", all - repliesShown},
		"/find?q=same":    {"/records/rt-1193/same", "/records/rt-1053/same", all - foundOfKind},
		"/accounts/aws-1": {"/records/binding/aws-1/r-1193", "/records/binding/aws-1/r-0773", 0},
	} {
		body := get(t, p, path).Body.String()
		if !strings.Contains(body, c.newest) || strings.Contains(body, c.left) || c.more > 0 && !strings.Contains(body, fmt.Sprintf("and %d more", c.more)) {
			t.Errorf("%s does not have %s, or has %s, or not as many more as %d:\n%s", path, c.newest, c.left, c.more, body[:min(len(body), 3000)])
		}
	}
}

// TestDuplicatesAreTold: the pages of a pool and of an account say of which account another one is a duplicate, also
// if a tenant has it.
func TestDuplicatesAreTold(t *testing.T) {
	t.Parallel()
	l := emptyLandscape()
	l.bindings = []engine.Binding{
		{Name: "aws-1", HyperscalerType: "aws", Tenant: "ga-1"},
		{Name: "aws-2", HyperscalerType: "aws", Tenant: "ga-2", SameSecretAs: "aws-1"},
	}
	p, _ := newPage(t, l, nil)
	for path, want := range map[string]string{
		"/pools/aws": `<span class="tag">duplicate of aws-1</span>`, "/accounts/aws-2": `, a duplicate of <a href="/accounts/aws-1">`,
	} {
		if body := get(t, p, path).Body.String(); strings.Count(body, want) != 1 {
			t.Errorf("%s lacks %q:\n%s", path, want, body)
		}
	}
}
