package page

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/worker/history"
	"github.com/hap-worker/hap-worker/worker/page/access"
)

//go:embed templates/*.tmpl
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// Options are the settings of New.
type Options struct {
	// Access configures who may see the page.
	Access access.Rules
	// Settings returns the current configuration.
	Settings func() Settings
	// Recent has the last events of this worker, whose observer calls its OnEvent.
	Recent *Recent
	// Version and Instance name the worker. Default to none.
	Version, Instance string
	// Alone says that /metrics and /readyz have another address.
	Alone bool
	// Log gets the failures of logins and of rendering.
	Log *slog.Logger
	// Every is the interval of updates to viewers. Defaults to a second.
	Every time.Duration
}

// Page serves the operations page.
type Page struct {
	opts      Options
	ctx       context.Context // its end ends the streams and the reads that viewers share
	sources   atomic.Pointer[Sources]
	cache     cache
	outages   outages
	templates *template.Template
	handler   http.Handler
	streams   audience
	limits    limits
	trials    seats // of the playground
	finders   seats // of the search
	letters   newest
	queued    newest
	now       func() time.Time
}

// New returns the page. Its streams end with ctx. Until Connect is called, the worker is shown as starting, and only
// the rules can be tried.
func New(ctx context.Context, o Options) *Page {
	if o.Every == 0 {
		o.Every = atMostEvery
	}
	p := &Page{opts: o, ctx: ctx, limits: limits{write: writeWithin, stream: streamAge}, trials: make(seats, maxTrials), finders: make(seats, maxFinders), now: time.Now}
	p.cache = cache{ctx: ctx, now: time.Now, read: func(ctx context.Context) *state {
		s := read(ctx, p.sources.Load(), o.Settings(), p.now)
		p.outages.date(s.Faults, s.Taken)
		return s
	}}
	p.templates = template.Must(template.New("page").Funcs(p.functions()).ParseFS(templateFiles, "templates/*.tmpl"))
	p.handler = secure(access.New(ctx, o.Access, p.routes(), func() time.Time { return p.now() }, func(text string) { o.Log.Warn(text) }))
	return p
}

// Connect sets the sources of the page.
func (p *Page) Connect(s Sources) {
	s.past = history.New(p.ctx, s.Facts, func() time.Time { return p.now() })
	p.sources.Store(&s)
}

// ServeHTTP serves everything below /.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

func (p *Page) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", p.live(p.overview))
	mux.Handle("GET /pools/{pool}", p.live(p.poolView))
	mux.Handle("GET /tenants", p.live(p.tenantsView))
	mux.HandleFunc("GET /find", p.find)
	mux.HandleFunc("GET /runtimes/{runtime}", p.runtimeView)
	mux.HandleFunc("GET /accounts/{account}", p.accountView)
	mux.HandleFunc("GET /tenants/{tenant}", p.tenantView)
	mux.HandleFunc("GET /records/{runtime}/{request}", p.record)
	mux.HandleFunc("GET /records/binding/{binding}/{request}", p.record)
	mux.HandleFunc("GET /rules", p.playground)
	mux.HandleFunc("POST /rules", p.playground)
	assets, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		panic(err) // the files are in the program
	}
	mux.Handle("GET /assets/", cached(http.StripPrefix("/assets/", http.FileServerFS(assets))))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		p.fail(w, http.StatusNotFound, "There is nothing here. The overview leads to all there is.")
	})
	return mux
}

// secure sets headers that restrict what browsers may do with the page.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private, max-age=300")
		next.ServeHTTP(w, r)
	})
}

// view is one page. Body is the template of its main part. Live are the templates of the parts that are sent
// again when they change; each is rendered into the element whose id is its name.
type view struct {
	Title    string
	Body     string
	Live     []string
	Data     any
	Taken    time.Time
	Version  string
	Instance string
	Alone    bool
	Query    string // the search text
	Nav      string // the entry of the navigation that the page belongs to
	Parts    map[string]template.HTML
}

// write answers with the whole page and the status, or with status 500 if the page cannot be rendered.
func (p *Page) write(w http.ResponseWriter, status int, v view) {
	v.Version, v.Instance, v.Alone = p.opts.Version, p.opts.Instance, p.opts.Alone
	v.Parts = map[string]template.HTML{}
	var page bytes.Buffer
	err := p.render(&page, &v)
	if err != nil {
		p.opts.Log.Error("the operations page cannot be rendered", "page", v.Body, "error", err)
		http.Error(w, "the page cannot be rendered; the worker's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Vary", "Accept")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // the viewer may have disconnected
}

// render renders the live parts, then the body around them, and then the layout around the body.
func (p *Page) render(into *bytes.Buffer, v *view) error {
	for _, name := range v.Live {
		part, err := p.part(name, v.Data)
		if err != nil {
			return err
		}
		v.Parts[name] = template.HTML(part) //nolint:gosec // it comes out of a template that escapes
	}
	var body bytes.Buffer
	if err := p.templates.ExecuteTemplate(&body, v.Body, v); err != nil {
		return err
	}
	v.Parts["body"] = template.HTML(body.String()) //nolint:gosec // as above
	return p.templates.ExecuteTemplate(into, "layout", v)
}

func (p *Page) part(name string, data any) (string, error) {
	var html bytes.Buffer
	err := p.templates.ExecuteTemplate(&html, name, data)
	return html.String(), err
}

// fail answers with an error page.
func (p *Page) fail(w http.ResponseWriter, status int, text string) {
	p.write(w, status, view{Title: http.StatusText(status), Body: "failure", Data: text, Taken: p.now()})
}

// rules returns the rules in force.
func (p *Page) rules() *rule.Ruleset { return p.opts.Settings().Rules() }

// functions are the functions of the templates.
func (p *Page) functions() template.FuncMap {
	return template.FuncMap{
		"clock":    func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"stamp":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"when":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
		"day":      func(t time.Time) string { return t.UTC().Format("Jan 2 15:04") },
		"moment":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") },
		"since":    func(t, now time.Time) string { return seconds(now.Sub(t)) },
		"until":    func(t, now time.Time) string { return seconds(t.Sub(now)) },
		"took":     short,
		"many":     many,
		"reason":   reasonText,
		"verdict":  verdictText,
		"outcome":  outcomeText,
		"to":       linkTo,
		"recordOf": recordOf,
		"roughly":  roughly,
		"breaks":   breaks,
		"queued":   func(p *pool, now time.Time) poolQueue { return poolQueue{p, now} },
		"pattern":  func(class string) string { return segment{Class: class}.Pattern() },
	}
}

// breaks permits a line break after each comma of a selector.
func breaks(selector string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(selector), ",", ",<wbr>")) //nolint:gosec // it is escaped
}

// many writes n, an integer or a figure, with its noun in singular or plural.
func many(n any, one string) string {
	said := fmt.Sprint(n)
	switch {
	case said == "1":
		return "1 " + one
	case len(one) > 1 && one[len(one)-1] == 'y' && !strings.ContainsRune("aeou", rune(one[len(one)-2])):
		return fmt.Sprintf("%s %sies", said, one[:len(one)-1])
	default:
		return fmt.Sprintf("%s %ss", said, one)
	}
}

// seats limits how many requests do something at once.
type seats chan struct{}

// maxTrials is how many requests for the playground are handled at once.
const maxTrials = 2

func (s seats) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s seats) give() { <-s }
