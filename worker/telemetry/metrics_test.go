package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/build"
	"github.com/hap-worker/hap-worker/worker/observe"
)

func start(t *testing.T, o Options) *Telemetry {
	t.Helper()
	telemetry, err := New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := telemetry.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return telemetry
}

// scrape returns what Prometheus reads of the metrics that begin with one of the prefixes.
func scrape(t *testing.T, telemetry *Telemetry, prefixes ...string) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	telemetry.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	body, err := io.ReadAll(recorder.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	var kept strings.Builder
	for line := range strings.Lines(string(body)) {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		for _, prefix := range prefixes {
			if strings.HasPrefix(name, prefix) {
				kept.WriteString(line)
			}
		}
	}
	return kept.String()
}

// TestExposition records one of everything and compares what Prometheus reads
// with the file: names, types, labels and buckets are what dashboards rely on.
func TestExposition(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{TenantMetrics: true, Build: build.Info{Version: "v1.2.3", Revision: "0dc5dde", Go: "go1.26.8"}})
	record(telemetry.Metrics)
	datadriven.RunTest(t, "testdata/exposition", func(t *testing.T, d *datadriven.TestData) string {
		return scrape(t, telemetry, "hap_", "keb_", "target_", "otel_")
	})
}

// TestBuildInfo: without options, a worker reports its build. Prometheus drops empty labels.
func TestBuildInfo(t *testing.T) {
	t.Parallel()
	is := regexp.MustCompile(`(?m)^hap_build_info\{goversion="` + regexp.QuoteMeta(runtime.Version()) + `",revision="[^"]+",version="[^"]+"\} 1$`)
	if got := scrape(t, start(t, Options{}), "hap_build_info"); !is.MatchString(got) {
		t.Errorf("this program: %s", got)
	}
	want := `hap_build_info{goversion="unknown",revision="unknown",version="v1.2.3"} 1` + "\n"
	if got := scrape(t, start(t, Options{Build: build.Info{Version: "v1.2.3"}}), "hap_build_info{"); got != want {
		t.Errorf("of a version only: %s, want %s", got, want)
	}
}

func record(m *Metrics) {
	ctx := context.Background()
	o := m.Observer()
	o.Event(ctx, observe.Event{Type: "provision", Outcome: "done", Tenant: "ga-1", Duration: 3 * time.Millisecond})
	o.Event(ctx, observe.Event{Type: "provision", Outcome: "done", Tenant: "ga-2", Duration: 40 * time.Second})
	o.Event(ctx, observe.Event{Type: "release", Outcome: "reject", Code: engine.CodeNotDirty, Duration: 200 * time.Microsecond})
	o.Decision(ctx, decision("aws+eu", account.Claimed, "ga-1"))
	o.Claim(ctx, observe.Claim{Result: observe.ClaimWritten, Duration: 20 * time.Millisecond})
	o.Claim(ctx, observe.Claim{Result: observe.ClaimConflict, Duration: 20 * time.Millisecond})
	o.Claim(ctx, observe.Claim{Result: observe.ClaimRevoked})
	o.Assigned(ctx, observe.Assigned{Pool: "aws+eu", Took: 40 * time.Millisecond})
	o.Assigned(ctx, observe.Assigned{Pool: "aws+eu", Took: 7 * time.Minute})
	o.Waiting([]observe.Waiting{{Pool: "gcp", Reason: "pool-empty", Since: m.now().Add(time.Hour)}}) // 0 s, whatever the time
	m.Redis(ctx, "assign", 300*time.Microsecond)
	m.Reload(ctx, NetworkConfig, nil)
	m.Reload(ctx, PolicyConfig, errors.New("invalid"))
	m.Reload(ctx, PolicyCatalog, errors.New("invalid"))
	m.Removed(PolicyCatalog)
	o.Event(ctx, observe.Event{Type: "unknown", Outcome: observe.DeadLetter, Code: engine.CodeInvalidEvent})
	m.InFlight(func() int { return 1 })
	m.Load(func() observe.Load {
		return observe.Load{
			Queued: []observe.Queued{{Class: "arrival", Events: 7}}, Flows: 2, Slow: 1, HandedBack: 3,
			Circuits: []observe.Circuit{{Dependency: "labels", Pool: "aws", Open: true}, {Dependency: "shoots"}},
		}
	})
	o.Rebuild(ctx, observe.Rebuild{})
	m.Observe(func(context.Context) (Snapshot, bool) { return pools(), true })
	o.Drift(ctx, observe.Drift{Found: []account.Drift{{Kind: account.CountWrong, Binding: "a"}, {Kind: account.CountWrong, Binding: "b"}}})
	m.Look(m.now(), pools().Bindings)
	o.Extended(ctx, observe.Extended{Rule: "mcp-clusters"})
	o.Unserved(ctx, observe.Unserved{Clusters: map[string]int{"mcp-clusters": 3}})
}

// decision is an assignment as Redis decided it.
func decision(pool string, origin account.Origin, tenant string) observe.Decision {
	return observe.Decision{Pool: pool, Tenant: tenant, Decision: account.Decision{Outcome: account.Assigned, Origin: origin}}
}

func pools() Snapshot {
	aws := func(name, tenant string) engine.Binding {
		return engine.Binding{Name: name, HyperscalerType: "aws", Tenant: tenant}
	}
	eu, dirty, internal, cordoned := aws("aws-eu", "ga-1"), aws("aws-d", "ga-1"), aws("aws-i", ""), aws("aws-c", "")
	eu.EUAccess, dirty.Dirty, internal.Internal, cordoned.Cordoned = true, true, true, true
	unread := aws("gcp-1", "ga-1")
	unread.HyperscalerType = "gcp"
	return Snapshot{
		Bindings: slices.Values([]BindingFacts{
			{Binding: aws("aws-1", "ga-1"), Record: &account.Record{State: account.InUse, Count: 12}},
			{Binding: aws("aws-2", "ga-1"), Record: &account.Record{State: account.Draining}},
			{Binding: aws("aws-3", "ga-2"), Record: &account.Record{State: account.InUse, Count: 1}},
			{Binding: aws("aws-4", ""), Record: &account.Record{}},
			{Binding: aws("aws-5", ""), Record: &account.Record{State: account.Free}},
			{Binding: aws("aws-6", ""), Record: &account.Record{State: account.Claiming, Count: 1}},
			{Binding: aws("aws-7", "ga-3"), Record: &account.Record{State: account.Free}},
			{Binding: eu, Record: &account.Record{State: account.InUse, Count: 3}},
			{Binding: dirty, Record: &account.Record{State: account.Dirtying}},
			{Binding: internal, Record: &account.Record{State: account.InUse, Tenant: "ga-1", Count: 1}},
			{Binding: cordoned, Record: &account.Record{}},
			{Binding: engine.Binding{Name: "os-1", HyperscalerType: "openstack_eu", Shared: true, Cordoned: true}, Record: &account.Record{State: account.InUse, Count: 40}},
			{Binding: aws("aws-8", ""), Record: &account.Record{State: account.Free, Count: 2}},
			{Binding: unread},
		}),
		RulesWithoutBinding: []string{`gcp(PR=cf-sa30) -> PR`},
	}
}

func TestTenantLabel(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{TenantLabel: true})
	record(telemetry.Metrics)
	got := scrape(t, telemetry, "hap_events_total{", "hap_decisions_total{")
	want := `hap_decisions_total{global_account_id="ga-1",origin="claimed",pool="aws+eu"} 1
hap_events_total{code="",global_account_id="ga-1",outcome="done",type="provision"} 1
hap_events_total{code="",global_account_id="ga-2",outcome="done",type="provision"} 1
hap_events_total{code="InvalidEvent",global_account_id="",outcome="bury",type="unknown"} 1
hap_events_total{code="NotDirty",global_account_id="",outcome="reject",type="release"} 1
`
	if got != want {
		t.Errorf("scraped:\n%swant:\n%s", got, want)
	}
}

// TestTenantsAreNamedOnDemand: no metric names a tenant unless that is switched on.
func TestTenantsAreNamedOnDemand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o     Options
		named bool
	}{{Options{}, false}, {Options{TenantMetrics: true}, true}, {Options{TenantLabel: true}, true}} {
		o, named := c.o, c.named
		telemetry := start(t, o)
		record(telemetry.Metrics)
		if got := scrape(t, telemetry, "keb_credentials_bindings_per_ga{") != ""; got != named {
			t.Errorf("%+v: bindings per tenant are shown: %t", o, got)
		}
		if all := scrape(t, telemetry, "hap_", "keb_"); !named && strings.Contains(all, "ga-1") {
			t.Errorf("a tenant is named:\n%s", all)
		}
	}
}

// TestUnknownStateIsAbsent holds that pools that cannot be read are not reported as empty.
func TestUnknownStateIsAbsent(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{})
	if got := scrape(t, telemetry, "keb_", "hap_pool_"); got != "" {
		t.Errorf("without a source:\n%s", got)
	}
	telemetry.Metrics.Observe(func(context.Context) (Snapshot, bool) { return Snapshot{}, false })
	if got := scrape(t, telemetry, "keb_", "hap_pool_"); got != "" {
		t.Errorf("with a source that does not know:\n%s", got)
	}
	if got := scrape(t, telemetry, "hap_redis_built"); got != "" {
		t.Errorf("built, before Redis was asked: %q", got)
	}
	telemetry.Metrics.RedisBuilt(false)
	if got := scrape(t, telemetry, "hap_redis_built"); !strings.HasSuffix(got, "\nhap_redis_built 0\n") {
		t.Errorf("not built: %q", got)
	}
}

// TestUnreadPool: if records of a pool could not be read, counts that need them are absent; all others are
// reported.
func TestUnreadPool(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{})
	eu := engine.Binding{Name: "aws-eu", HyperscalerType: "aws", EUAccess: true}
	facts := slices.Values([]BindingFacts{
		{Binding: engine.Binding{Name: "aws-1", HyperscalerType: "aws"}, Record: &account.Record{}},
		{Binding: eu},
		{Binding: engine.Binding{Name: "gcp-1", HyperscalerType: "gcp"}, Record: &account.Record{}},
	})
	telemetry.Metrics.Observe(func(context.Context) (Snapshot, bool) { return Snapshot{Bindings: facts}, true })
	telemetry.Metrics.Look(time.Now(), facts)
	got := scrape(t, telemetry, "hap_pool_accounts{", "hap_pool_bindings{", "hap_pool_exhaustion_seconds{", "keb_available_credentials_bindings{", "keb_shoots_per_credentials_binding{")
	want := `hap_pool_accounts{pool="aws",standing="free"} 1
hap_pool_accounts{pool="aws+eu",standing="unknown"} 1
hap_pool_accounts{pool="gcp",standing="free"} 1
hap_pool_bindings{pool="aws",state="free"} 1
hap_pool_bindings{pool="gcp",state="free"} 1
hap_pool_exhaustion_seconds{pool="aws"} +Inf
hap_pool_exhaustion_seconds{pool="gcp"} +Inf
keb_available_credentials_bindings{eu_access="false",hyperscaler_type="aws",pool="aws",shared="false"} 1
keb_available_credentials_bindings{eu_access="false",hyperscaler_type="gcp",pool="gcp",shared="false"} 1
keb_shoots_per_credentials_binding{credentials_binding="aws-1",hyperscaler_type="aws"} 0
keb_shoots_per_credentials_binding{credentials_binding="gcp-1",hyperscaler_type="gcp"} 0
`
	if got != want {
		t.Errorf("scraped:\n%swant:\n%s", got, want)
	}
}

// TestAvailableByPool: an empty pool is reported beside another pool of its hyperscaler type that has
// accounts. In a shared pool, the bindings that take clusters are counted.
func TestAvailableByPool(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{TenantMetrics: true})
	facts := func(name string, b engine.Binding) BindingFacts {
		b.Name, b.HyperscalerType = name, "aws"
		return BindingFacts{Binding: b, Record: &account.Record{}}
	}
	snapshot := Snapshot{Bindings: slices.Values([]BindingFacts{
		facts("aws-1", engine.Binding{}), facts("aws-2", engine.Binding{}),
		facts("eu-1", engine.Binding{EUAccess: true, Tenant: "ga-1"}), facts("eu-2", engine.Binding{EUAccess: true, Dirty: true, Tenant: "ga-2"}),
		facts("shared-1", engine.Binding{Shared: true}), facts("shared-2", engine.Binding{Shared: true, Cordoned: true}),
	})}
	telemetry.Metrics.Observe(func(context.Context) (Snapshot, bool) { return snapshot, true })
	got := scrape(t, telemetry, "keb_available_credentials_bindings{", "keb_credentials_bindings_per_ga{")
	want := `keb_available_credentials_bindings{eu_access="false",hyperscaler_type="aws",pool="aws",shared="false"} 2
keb_available_credentials_bindings{eu_access="false",hyperscaler_type="aws",pool="aws+shared",shared="true"} 1
keb_available_credentials_bindings{eu_access="true",hyperscaler_type="aws",pool="aws+eu",shared="false"} 0
keb_credentials_bindings_per_ga{eu_access="true",global_account_id="ga-1",hyperscaler_type="aws",pool="aws+eu",shared="false"} 1
`
	if got != want {
		t.Errorf("scraped:\n%swant:\n%s", got, want)
	}
}

// TestSeriesAreBounded records more pools than one instrument may have labels for.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{})
	o := telemetry.Metrics.Observer()
	const beyond = 7
	for i := range maxSeries + beyond {
		o.Decision(context.Background(), decision(fmt.Sprintf("pool-%d", i), "own", ""))
	}
	got := scrape(t, telemetry, "hap_decisions_total{")
	if n := strings.Count(got, "\n"); n != maxSeries+1 {
		t.Errorf("%d series, want %d", n, maxSeries+1)
	}
	if want := fmt.Sprintf("hap_decisions_total{origin=\"other\",pool=\"other\"} %d\n", beyond); !strings.Contains(got, want) {
		t.Errorf("what is beyond is not in %q", want)
	}
}

// TestManyBindings has more bindings than OpenTelemetry's default limit of 2000 series.
func TestManyBindings(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{TenantMetrics: true})
	const bindings = 3000
	facts := make([]BindingFacts, 0, bindings)
	for i := range bindings {
		facts = append(facts, BindingFacts{
			Binding: engine.Binding{Name: fmt.Sprintf("aws-%d", i), HyperscalerType: "aws", Tenant: fmt.Sprintf("ga-%d", i)},
			Record:  &account.Record{State: account.InUse, Count: 1},
		})
	}
	telemetry.Metrics.Observe(func(context.Context) (Snapshot, bool) {
		return Snapshot{Bindings: slices.Values(facts)}, true
	})
	for _, name := range []string{"keb_credentials_bindings_per_ga{", "keb_shoots_per_credentials_binding{"} {
		if n := strings.Count(scrape(t, telemetry, name), "\n"); n != bindings {
			t.Errorf("%s has %d series, want %d", name, n, bindings)
		}
	}
}

func TestRuntimeAndProcess(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{})
	for _, name := range []string{"go_goroutines ", "process_resident_memory_bytes "} {
		if scrape(t, telemetry, name) == "" {
			t.Errorf("there is no %s", name)
		}
	}
}

// TestDocumentationNamesEveryMetric reads docs/telemetry.md.
func TestDocumentationNamesEveryMetric(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{})
	record(telemetry.Metrics)
	text, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	for line := range strings.Lines(scrape(t, telemetry, "hap_", "keb_")) {
		if name, found := strings.CutPrefix(line, "# HELP "); found {
			names++
			name, _, _ = strings.Cut(name, " ")
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/telemetry.md lacks %s", name)
			}
		}
	}
	if names < 22 {
		t.Errorf("only %d metrics were found", names)
	}
}

// TestHotPathDoesNotAllocate is the price of an event.
func TestHotPathDoesNotAllocate(t *testing.T) {
	telemetry := start(t, Options{})
	ctx, m := context.Background(), telemetry.Metrics
	o := m.Observer()
	if n := testing.AllocsPerRun(1000, func() { one(ctx, m, &o) }); n > 0 {
		t.Errorf("%g allocations an event, want none", n)
	}
}

func one(ctx context.Context, m *Metrics, o *observe.Observer) {
	o.Event(ctx, observe.Event{Type: "provision", Outcome: "done", Duration: 3 * time.Millisecond})
	o.Decision(ctx, decision("aws", "own", ""))
	m.Redis(ctx, "assign", 300*time.Microsecond)
}

func BenchmarkEvent(b *testing.B) {
	telemetry, err := New(context.Background(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, m := context.Background(), telemetry.Metrics
	o := m.Observer()
	b.ReportAllocs()
	for b.Loop() {
		one(ctx, m, &o)
	}
}

func BenchmarkEventParallel(b *testing.B) {
	telemetry, err := New(context.Background(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	o := telemetry.Metrics.Observer()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for ctx := context.Background(); pb.Next(); {
			one(ctx, telemetry.Metrics, &o)
		}
	})
}

// A shadow counts its own streams: their series are there before the first message without room.
func TestShadowStreams(t *testing.T) {
	t.Parallel()
	got := scrape(t, start(t, Options{Shadow: true}), "hap_stream_full_total{")
	want := `hap_stream_full_total{mode="shadow",stream="HAP_SHADOW_DEAD"} 0
hap_stream_full_total{mode="shadow",stream="HAP_SHADOW_REPLIES"} 0
hap_stream_full_total{mode="shadow",stream="HAP_SHADOW_WAITING"} 0
`
	if got != want {
		t.Errorf("scraped:\n%swant:\n%s", got, want)
	}
}

// A shadow's series say so, for alerts to leave them out.
func TestShadowIsLabelled(t *testing.T) {
	t.Parallel()
	for _, shadow := range []bool{false, true} {
		telemetry := start(t, Options{Shadow: shadow})
		telemetry.Metrics.RedisBuilt(true)
		for line := range strings.SplitSeq(scrape(t, telemetry, "hap_"), "\n") {
			if line != "" && !strings.HasPrefix(line, "#") && strings.Contains(line, `mode="shadow"`) != shadow {
				t.Errorf("shadow %t: %s", shadow, line)
			}
		}
	}
}
