package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/page/access"
)

var (
	element = regexp.MustCompile(`(?s)<main[^>]*>(.*)</main>`)
	spaces  = regexp.MustCompile(`[ \t]*\n\s*`)
)

// TestPages renders pages of a landscape that has something of everything. "get"
// shows the status and the main part, "part" one part as the stream sends it,
// "post" is the playground with one field a line, and "circuits" what the banner says
// of circuits, one a line: dependency, pool or -, seconds for which it is open or -, error.
func TestPages(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/pages", func(t *testing.T, path string) {
		p, _ := newPage(t, demo(), nil)
		busy(p.opts.Recent)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "get":
				return shown(get(t, p, d.CmdArgs[0].String()))
			case "post":
				return shown(post(p, d.Input))
			case "circuits":
				s := *p.sources.Load()
				s.Circuits = func() []observe.Circuit { return circuitsIn(t, d.Input) }
				html, err := p.part("faults", overviewData{Banner: read(t.Context(), &s, p.opts.Settings(), p.now).banner()})
				if err != nil {
					return err.Error()
				}
				return tidy(html)
			case "part":
				get(t, p, "/") // the ledger is read
				r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
				v, _ := p.overview(r)
				html, err := p.part(d.CmdArgs[0].String(), v.Data)
				if err != nil {
					return err.Error()
				}
				return tidy(html)
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

// post sends the form whose fields are "name: value" lines; lines that are
// indented go on with the last one.
func post(p http.Handler, fields string) *httptest.ResponseRecorder {
	form, last := url.Values{}, ""
	for line := range strings.Lines(fields) {
		line = strings.TrimSuffix(line, "\n")
		if more, is := strings.CutPrefix(line, "  "); is {
			form.Set(last, form.Get(last)+more+"\n")
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		last = name
		form.Set(name, strings.TrimSpace(value))
	}
	r := httptest.NewRequest(http.MethodPost, "/rules", strings.NewReader(form.Encode()))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func shown(w *httptest.ResponseRecorder) string {
	body := w.Body.String()
	if main := element.FindStringSubmatch(body); main != nil {
		body = main[1]
	}
	if answer := strings.Index(body, `<section id="answer"`); answer >= 0 {
		body = body[answer:] // the form is the same every time
	}
	return fmt.Sprintf("%d\n%s", w.Code, tidy(body))
}

// tidy puts every line at the margin and leaves out the empty ones, which would
// end an expectation.
func tidy(html string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(html, "\n")) + "\n"
}

// inline finds what the page's own Content-Security-Policy would block.
var inline = regexp.MustCompile(`(?i) style=|<style|<script>|<script [^>]*>[^<]| on[a-z]+=|javascript:|https?://`)

func TestEveryAnswerIsGuarded(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t, demo(), nil)
	busy(p.opts.Recent)
	for _, path := range []string{
		"/", "/pools/aws", "/pools/none", "/tenants", "/rules", "/rules?plan=aws", "/records/rt-1/q-1",
		"/records/binding/aws-4/q-2", "/records/rt-1/none", "/find?q=rt-1", "/find?q=q-dead", "/find?q=%3Cscript%3E", "/find", "/runtimes/rt-1", "/runtimes/none", "/accounts/aws-4", "/tenants/ga-4",
		"/assets/page.css", "/assets/page.js", "/assets/icon.svg", "/nothing",
	} {
		w := get(t, p, path)
		h := w.Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		} {
			if !strings.HasPrefix(h.Get(name), want) {
				t.Errorf("%s: %s is %q, want %q", path, name, h.Get(name), want)
			}
		}
		if !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s may be framed: %q", path, h.Get("Content-Security-Policy"))
		}
		if strings.HasPrefix(h.Get("Content-Type"), "text/html") {
			if found := inline.FindString(w.Body.String()); found != "" {
				t.Errorf("%s has %q, which its policy blocks or which comes from elsewhere", path, found)
			}
		}
	}
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t, demo(), nil)
	for _, c := range []struct {
		path string
		code int
		says string
	}{
		{"/pools/none", http.StatusNotFound, `There is no pool &#34;none&#34;`},
		{"/nothing", http.StatusNotFound, "There is nothing here"},
		{"/records/rt-1/q-9", http.StatusNotFound, "There is no reply to request q-9 for rt-1"},
		{"/records/*/q-9", http.StatusNotFound, "no id of a runtime"},
		{"/records/rt-1/%3E", http.StatusNotFound, "no id of a runtime"},
		{"/records/rt-broken/q-1", http.StatusServiceUnavailable, "no responders"},
	} {
		if w := get(t, p, c.path); w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d, want %d with %q:\n%s", c.path, w.Code, c.code, c.says, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	if p.ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST / is answered %d", w.Code)
	}
}

// TestBeforeTheWorkerIsConnected looks while there is nothing to read.
func TestBeforeTheWorkerIsConnected(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t, nil, nil)
	for path, code := range map[string]int{"/": 200, "/tenants": 200, "/rules": 200, "/pools/aws": 503, "/records/rt-1/q-1": 503} {
		w := get(t, p, path)
		if w.Code != code || path != "/rules" && !strings.Contains(w.Body.String(), "is starting") {
			t.Errorf("%s: %d, want %d and why:\n%s", path, w.Code, code, w.Body)
		}
	}
}

// TestUnreadCounts looks while Redis does not answer, and while a pool is not built:
// what labels say is shown, and counts and states are unknown, neither 0 nor free.
func TestUnreadCounts(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*landscape){
		"not read":  func(l *landscape) { l.down = errors.New("dial tcp 127.0.0.1:6379: connection refused") },
		"not built": func(l *landscape) { delete(l.status, "aws") },
	} {
		l := demo()
		change(l)
		p, _ := newPage(t, l, nil)
		overview, pool := get(t, p, "/").Body.String(), get(t, p, "/pools/aws").Body.String()
		for _, want := range []string{
			says, "/pools/aws", "ga-9", "<dt>Accounts</dt>", "<dt>Free</dt><dd>–</dd>", "<dt>Claimed</dt><dd>–</dd>", "<dt>Draining</dt><dd>–</dd>",
			"<dt>Dirty</dt><dd>–</dd>", "<dt>Clusters</dt><dd>–</dd>", "<b>–</b> free of 9", "– clusters · 9 unknown", "empty in <b>–</b>",
			"Incomplete since", "<strong>Redis</strong>",
		} {
			if !strings.Contains(overview, want) {
				t.Errorf("%s: the overview lacks %q", says, want)
			}
		}
		if l.down != nil && !strings.Contains(overview, "does not answer, counts are missing, since") || !strings.Contains(overview, "Meanwhile ") {
			t.Errorf("%s: the overview does not say why, and what stops", says)
		}
		if n := strings.Count(pool, `<b>–</b> <span class="of">/ 10</span> <span class="state">unknown</span>`) +
			strings.Count(pool, `<b>–</b> <span class="state">unknown</span>`); n != 9 || strings.Contains(pool, "none free") {
			t.Errorf("%s: %d accounts are unknown, want 9:\n%s", says, n, pool)
		}
	}
}

// TestUnreadWaiting opens the page while neither the stream of waiting requests nor Redis can be read.
func TestUnreadWaiting(t *testing.T) {
	t.Parallel()
	l := demo()
	l.waiting, l.closed = nil, errors.New("no responders available")
	p, _ := newPage(t, l, nil)
	body := get(t, p, "/").Body.String()
	for _, want := range []string{"<dt>Waiting</dt><dd>–</dd>", "cannot say which requests wait, since", "2 or more waiting", "no event is taken and no answer is stored"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q:\n%s", want, body)
		}
	}
	l.down = errors.New("connection refused")
	p, _ = newPage(t, l, nil)
	if body := get(t, p, "/").Body.String(); strings.Count(body, "– waiting") != 3 || strings.Contains(body, "2 or more") {
		t.Errorf("what waits is not unknown:\n%s", body)
	}
}

// silentRecords are those of a Redis that hangs.
type silentRecords struct{ Records }

func (silentRecords) Status(ctx context.Context, _ string) (account.Status, error) {
	<-ctx.Done()
	return account.Status{}, ctx.Err()
}

// punctualRoom is a waiting room that is not read after ctx has ended.
type punctualRoom struct{ Room }

func (r punctualRoom) Each(ctx context.Context, visit func(storage.WaitingRequest) error) error {
	return cmp.Or(ctx.Err(), r.Room.Each(ctx, visit))
}

// TestRedisHangs: what waits is shown, and only Redis is said to fail.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPage(t, demo(), nil)
		from := *p.sources.Load()
		from.Records, from.Room = silentRecords{from.Records}, punctualRoom{from.Room}
		ctx, cancel := context.WithTimeout(t.Context(), readWithin)
		defer cancel()
		s := read(ctx, &from, p.opts.Settings(), p.now)
		if !s.Queued || slices.ContainsFunc(s.Faults, func(f fault) bool { return f.Part == NATS }) {
			t.Errorf("queued %t, faults %+v", s.Queued, s.Faults)
		}
	})
}

// TestSlowReading: a state that is not read in time says nothing of the events that the worker takes.
func TestSlowReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPage(t, demo(), nil)
		p.cache.read = func(context.Context) *state {
			time.Sleep(time.Minute)
			return &state{}
		}
		for path, code := range map[string]int{"/": http.StatusOK, "/pools/aws": http.StatusServiceUnavailable} {
			if w := get(t, p, path); w.Code != code || !strings.Contains(w.Body.String(), "could not read the state within 5s") || strings.Contains(w.Body.String(), "takes no events") {
				t.Errorf("%s: %d, want %d and why:\n%s", path, w.Code, code, w.Body)
			}
		}
		time.Sleep(2 * time.Minute) // until the reading has ended
	})
}

// TestLargePools holds that a page does not grow with the number of accounts.
func TestLargePools(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t, large(10_000), nil)
	overview := get(t, p, "/").Body
	if overview.Len() > 40_000 || strings.Contains(overview.String(), `class="tile`) {
		t.Errorf("the first page has %d bytes", overview.Len())
	}
	for path, want := range map[string]string{
		"/pools/aws": "1–120 of 10000", "/pools/aws?page=84": "9961–10000 of 10000", "/pools/aws?page=99999": "9961–10000 of 10000",
		"/pools/aws?page=-1": "1–120 of 10000", "/pools/aws?state=free&page=2": "121–240 of 6666", "/tenants?page=3": "101–150 of 1667",
	} {
		body := get(t, p, path).Body.String()
		if n := strings.Count(body, `class="tile `); !strings.Contains(body, want) || n > tilesOnPage || len(body) > 120_000 {
			t.Errorf("%s has %d tiles and %d bytes, want %q in it", path, n, len(body), want)
		}
	}
	if body := get(t, p, "/pools/aws?state=dirty").Body.String(); !strings.Contains(body, "No account is in this state") {
		t.Error("an empty list is not named")
	}
}

// TestSharedAccountsHaveNoLimit holds it of one with a tenant's name too, a contradiction of labels.
func TestSharedAccountsHaveNoLimit(t *testing.T) {
	t.Parallel()
	l := emptyLandscape()
	for _, pool := range []engine.Pool{{HyperscalerType: "aws"}, {HyperscalerType: "aws", Shared: true}} {
		l.claim(pool, pool.Name(), account.Record{State: account.InUse, Tenant: "ga-1", Count: 12})
		l.status[pool.Name()] = account.Status{Built: true}
	}
	p, _ := newPage(t, l, nil)
	limits := map[string]int{}
	for _, pool := range read(t.Context(), p.sources.Load(), p.opts.Settings(), p.now).Pools {
		limits[pool.Name()] = pool.accounts[0].Limit
	}
	if want := map[string]int{"aws": 10, "aws+shared": 0}; !maps.Equal(limits, want) {
		t.Errorf("the limits are %v, want %v", limits, want)
	}
}

func BenchmarkOverview(b *testing.B) {
	p, _ := newPage(b, large(10_000), nil)
	b.ReportAllocs()
	for b.Loop() {
		if w := get(b, p, "/"); w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}

func BenchmarkReadState(b *testing.B) {
	l := large(10_000)
	p, _ := newPage(b, l, nil)
	from := p.sources.Load()
	b.ReportAllocs()
	for b.Loop() {
		if s := read(b.Context(), from, p.opts.Settings(), p.now); s.Totals().Accounts != "10000" {
			b.Fatal(s.Totals())
		}
	}
}

// TestPageAsksWhoLooks: every path is behind the guard of package access.
func TestPageAsksWhoLooks(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("right"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, log := newPage(t, demo(), func(o *Options) { o.Access = access.Rules{Listen: ":8080", TokenFile: token} })
	for _, path := range []string{"/", "/assets/page.css", "/tenants", "/find?q=q-dead", "/accounts/aws-1", "/nothing"} {
		if w := get(t, p, path); w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "aws-1") || strings.Contains(w.Body.String(), "rt-dead") {
			t.Errorf("%s without a login: %d\n%s", path, w.Code, w.Body)
		}
	}
	if w := get(t, p, "/", "Authorization", "Bearer right"); w.Code != http.StatusOK {
		t.Errorf("with a login: %d, logged %q", w.Code, log)
	}
}
