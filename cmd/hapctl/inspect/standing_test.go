package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/page"
	"github.com/hap-worker/hap-worker/worker/page/access"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// TestOneWord: metrics, page and hapctl use the same word for an account.
func TestOneWord(t *testing.T) {
	t.Parallel()
	free := account.Record{State: account.Free}
	claimed := account.Record{State: account.InUse, Tenant: "t", Generation: 1, Confirmed: true, Count: 2}
	for name, c := range map[string]struct {
		b    engine.Binding
		rec  *account.Record
		want string
	}{
		"internal, in use by an internal tenant": {engine.Binding{Tenant: "t", Internal: true}, &claimed, "claimed"},
		"shared and cordoned":                    {engine.Binding{Shared: true, Cordoned: true}, &free, "cordoned"},
		"shared and internal":                    {engine.Binding{Shared: true, Internal: true}, &free, "internal"},
		"dirtying":                               {engine.Binding{Tenant: "t"}, &account.Record{State: account.Dirtying, Tenant: "t"}, "dirtying"},
		"its label was written by hand":          {engine.Binding{Tenant: "t"}, &free, "claimed"},
		"the same, and internal":                 {engine.Binding{Tenant: "t", Internal: true}, &free, "claimed"},
		"cordoned, and nobody's":                 {engine.Binding{Cordoned: true}, &free, "cordoned"},
		"being deleted, without a tenant":        {engine.Binding{Deleting: true, Internal: true, Cordoned: true}, &free, "deleting"},
		"being deleted, and a tenant's":          {engine.Binding{Tenant: "t", Deleting: true}, &claimed, "claimed"},
		"internal, and nobody's":                 {engine.Binding{Internal: true}, &free, "internal"},
		"claiming":                               {engine.Binding{}, &account.Record{State: account.Claiming, Tenant: "t", Count: 1}, "claiming"},
		"runtimes that no label accounts for":    {engine.Binding{}, &account.Record{State: account.Free, Count: 2}, "held"},
		"not read":                               {engine.Binding{}, nil, "unknown"},
		"not read, dirty":                        {engine.Binding{Dirty: true}, nil, "unknown"},
		"free":                                   {engine.Binding{}, &free, "free"},
		"claimed":                                {engine.Binding{Tenant: "t"}, &claimed, "claimed"},
		"dirty":                                  {engine.Binding{Tenant: "t", Dirty: true}, &claimed, "dirty"},
		"shared":                                 {engine.Binding{Shared: true}, &account.Record{State: account.InUse, Confirmed: true, Count: 2}, "shared"},
		"draining":                               {engine.Binding{Tenant: "t"}, &account.Record{State: account.Draining, Tenant: "t"}, "draining"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.b.Name, c.b.HyperscalerType = "b", "aws"
			got := []string{inMetrics(t, c.b, c.rec), onPage(t, c.b, c.rec), byHapctl(t, c.b, c.rec)}
			if !slices.Equal(got, []string{c.want, c.want, c.want}) {
				t.Errorf("metrics, page, hapctl: %q, want %q", got, c.want)
			}
		})
	}
}

func onlyWord(t *testing.T, h http.Handler, path, pattern string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(w.Body.String(), -1)
	if len(found) != 1 {
		return ""
	}
	return found[0][1]
}

func inMetrics(t *testing.T, b engine.Binding, rec *account.Record) string {
	t.Helper()
	tel, err := telemetry.New(t.Context(), telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tel.Shutdown(context.Background()) })
	tel.Metrics.Observe(func(context.Context) (telemetry.Snapshot, bool) {
		return telemetry.Snapshot{Bindings: slices.Values([]telemetry.BindingFacts{{Binding: b, Record: rec}})}, true
	})
	return onlyWord(t, tel.Handler(), "/metrics", `hap_pool_accounts\{pool="[^"]*",standing="(.*)"\} 1`)
}

// one is a landscape of one account.
type one struct {
	page.Room
	page.Ledger
	b   engine.Binding
	rec *account.Record
}

func (o one) All() iter.Seq[engine.Binding] { return slices.Values([]engine.Binding{o.b}) }

func (o one) Status(context.Context, string) (account.Status, error) {
	if o.rec == nil {
		return account.Status{}, errors.New("connection refused")
	}
	return account.Status{Built: true}, nil
}

func (one) Pools(context.Context) ([]string, error) { return nil, nil }

func (o one) Bindings(context.Context, string) iter.Seq2[account.NamedRecord, error] {
	return func(yield func(account.NamedRecord, error) bool) {
		if *o.rec != (account.Record{State: account.Free}) {
			yield(account.NamedRecord{Binding: o.b.Name, Record: *o.rec}, nil)
		}
	}
}

func (one) Queue(context.Context, string) ([]account.Waiter, error) { return nil, nil }

func (one) Runtime(context.Context, string) (account.Place, account.Runtime, error) {
	return account.Place{}, account.Runtime{}, nil
}

func (one) Each(context.Context, func(storage.WaitingRequest) error) error { return nil }

func (one) Rules() *rule.Ruleset { return nil }

func (one) Terms(string, string) account.Terms { return account.Terms{} }

func onPage(t *testing.T, b engine.Binding, rec *account.Record) string {
	t.Helper()
	o := one{b: b, rec: rec}
	p := page.New(t.Context(), page.Options{
		Access: access.Rules{Listen: "127.0.0.1:8080"}, Settings: func() page.Settings { return o },
		Recent: page.NewRecent(), Log: slog.New(slog.DiscardHandler),
	})
	p.Connect(page.Sources{Accounts: o, Records: o, Room: o, Ledger: o})
	return onlyWord(t, p, "/pools/"+b.Pool().Name(), `<span class="state">(.*?)</span>`)
}

// byHapctl returns the word of 'hapctl bindings'. It checks that table, JSON, the account's page, the pool's
// counts and 'hapctl explain' agree.
func byHapctl(t *testing.T, b engine.Binding, rec *account.Record) string {
	t.Helper()
	at := view.Place{Pool: b.Pool().Name(), Binding: b.Name}
	l := view.SideBySide(view.Records{
		Known: map[view.Place]account.Record{}, Pools: map[string]account.Status{at.Pool: {Built: rec != nil}},
	}, []engine.Binding{b}, view.Terms{})
	if rec != nil {
		l.Bindings[0] = view.NewBinding(at, &b, rec, view.Terms{})
	}
	var table, wide, detail bytes.Buffer
	view.WriteBindings(&table, l.Bindings, false)
	view.WriteBindings(&wide, l.Bindings, true)
	bindingDetail{Binding: l.Bindings[0]}.Show(&detail, false)
	var listed, counted struct {
		Standing  string         `json:"standing"`
		Standings map[string]int `json:"standings"`
	}
	for from, into := range map[any]any{&l.Bindings[0]: &listed, &summarize(l, "", view.Terms{})[0]: &counted} {
		text, err := json.Marshal(from)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	word := listed.Standing
	narrow := regexp.MustCompile(`(?m)^b +\S+ +` + word + " ")
	if !narrow.MatchString(table.String()) || !strings.HasSuffix(wide.String(), " "+word+"\n") || !regexp.MustCompile(`(?m)^STANDING +`+word+"$").MatchString(detail.String()) ||
		counted.Standings[word] != 1 || !strings.HasPrefix(accountText(&l.Bindings[0]), "b is "+word+" with ") {
		t.Errorf("hapctl says %q in JSON, counts %v, explains %s, and shows\n%s%s%s", word, counted.Standings, accountText(&l.Bindings[0]), &table, &wide, &detail)
	}
	return word
}
