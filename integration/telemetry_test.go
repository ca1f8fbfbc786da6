package integration_test

import (
	"context"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
)

// spans is an OTLP collector that keeps what it is sent.
type spans struct {
	*httptest.Server
	mu  sync.Mutex
	got []*trace.Span
}

func newSpans(t *testing.T) *spans {
	t.Helper()
	s := &spans{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/x-protobuf")
	if err != nil || r.URL.Path != "/v1/traces" {
		return
	}
	var sent collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &sent); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range sent.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			s.got = append(s.got, scope.GetSpans()...)
		}
	}
}

// all returns the spans of a trace.
func (s *spans) all(traceID string) (found []*trace.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.got {
		if hex.EncodeToString(span.GetTraceId()) == traceID {
			found = append(found, span)
		}
	}
	return found
}

// of returns the spans of a trace by name.
func (s *spans) of(traceID string) map[string]*trace.Span {
	found := map[string]*trace.Span{}
	for _, span := range s.all(traceID) {
		found[span.GetName()] = span
	}
	return found
}

// TestTraceGoesOn publishes with a trace: the worker's spans, its log and its
// reply belong to it.
func TestTraceGoesOn(t *testing.T) {
	t.Parallel()
	const traceID, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	s := newSpans(t)
	w := l.work(daemon.Options{Env: []string{"HAP_TELEMETRY_OTLP_ENDPOINT=" + s.URL}})
	e := ask("rt-1", "ga-1")
	data, err := events.EncodeEvent(e)
	if err != nil {
		t.Fatal(err)
	}
	l.sendRaw(&nats.Msg{Subject: l.subjects.Provision("ga-1"), Data: data, Header: nats.Header{
		"Content-Type": {events.ContentType}, "Nats-Msg-Id": {"provision/" + e.ID},
		"traceparent": {"00-" + traceID + "-" + parent + "-01"},
	}})
	l.flush()
	l.assigned(e)
	l.awaitSettled()
	stream, err := l.js.Stream(l.ctx, events.StreamReplies)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := stream.GetLastMsgForSubject(l.ctx, e.ReplySubject(l.subjects))
	if err != nil {
		t.Fatal(err)
	}
	if got := reply.Header["traceparent"]; len(got) != 1 || !strings.HasPrefix(got[0], "00-"+traceID+"-") {
		t.Errorf("the reply carries traceparent %q", got)
	}
	if !strings.Contains(w.log.String(), `"trace_id":"`+traceID+`"`) {
		t.Error("no line of the log carries the trace")
	}
	if err := w.end(); err != nil { // which sends what is left
		t.Fatal(err)
	}
	found := s.of(traceID)
	root := found["provision"]
	if root == nil {
		t.Fatalf("the collector has the spans %v of the trace", found)
	}
	if got := hex.EncodeToString(root.GetParentSpanId()); got != parent {
		t.Errorf("the span's parent is %s, want the publisher's %s", got, parent)
	}
	for name, above := range map[string]string{
		"decide": "provision", "assign": "decide", "claim": "decide", "publish reply": "provision",
	} {
		if span, parent := found[name], found[above]; span == nil || parent == nil || string(span.GetParentSpanId()) != string(parent.GetSpanId()) {
			t.Errorf("the span %s is %v, want it below %s", name, span, above)
		}
	}
}

// TestTraceTellsOfConflicts has the first claim refused, since another writer wrote the
// binding: the trace that the Go client published with says so. Its ids are also
// on the buckets of the histograms.
func TestTraceTellsOfConflicts(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 2))
	proxy, through := l.faultyAPI()
	s := newSpans(t)
	w := l.work(daemon.Options{Env: append(through, "HAP_TELEMETRY_OTLP_ENDPOINT="+s.URL)})
	refuseClaim(proxy, "aws-", func(string) {})
	publisher := sdktrace.NewTracerProvider().Tracer("publisher")
	ctx, asking := publisher.Start(l.ctx, "ask")
	client, err := requests.NewClient(l.js.Conn(), requests.ClientOptions{Source: "/publisher", Trace: func(ctx context.Context) (string, string) {
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		return carrier["traceparent"], carrier["tracestate"]
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	e := ask("rt-1", "ga-1")
	reply, err := client.Provision(ctx, e.ID, *e.Provision)
	if err != nil || reply.Status != events.StatusAssigned {
		t.Fatalf("the reply is %+v, %v", reply, err)
	}
	asking.End()
	l.awaitSettled()
	traceID := asking.SpanContext().TraceID().String()
	for _, histogram := range []string{
		"hap_event_duration_seconds", "hap_claim_duration_seconds", "hap_time_to_assign_seconds", "hap_redis_duration_seconds",
	} {
		if !exemplar(t, w, histogram, traceID) {
			t.Errorf("no bucket of %s has the trace as its exemplar", histogram)
		}
	}
	if err := w.end(); err != nil { // which sends what is left
		t.Fatal(err)
	}
	said := map[string][]string{} // the events by span
	for _, span := range s.all(traceID) {
		for _, event := range span.GetEvents() {
			said[span.GetName()] = append(said[span.GetName()], event.GetName())
		}
	}
	if want := map[string][]string{"claim": {"claim conflict"}}; !maps.EqualFunc(said, want, slices.Equal) {
		t.Errorf("the events of the trace are %v, want %v", said, want)
	}
	root := s.of(traceID)["provision"]
	if root == nil || hex.EncodeToString(root.GetParentSpanId()) != asking.SpanContext().SpanID().String() {
		t.Fatalf("the event's span is %v, want it below the publisher's", root)
	}
	has := map[string]string{}
	for _, a := range root.GetAttributes() {
		has[a.GetKey()] = a.GetValue().GetStringValue()
	}
	if has["hap.outcome"] != "ack" || has["hap.status"] != "assigned" || has["hap.binding"] != reply.Binding.Name {
		t.Errorf("the event's span says %v", has)
	}
}

// exemplar reports whether a bucket of the histogram carries the trace, in the form
// that Prometheus asks for.
func exemplar(t *testing.T, w *inProcess, histogram, traceID string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, histogram+"_bucket{") && strings.Contains(line, `trace_id="`+traceID+`"`) {
			return true
		}
	}
	return false
}

// TestMetricsOfThePools are the gauges that dashboards of the account design
// read, and what the worker counts itself.
func TestMetricsOfThePools(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, append(accounts("aws", 3), accounts("gcp", 1)...))
	w := l.work(daemon.Options{Env: []string{"HAP_TELEMETRY_TENANT_METRICS=true"}})
	all := append(asks("rt-a", "ga-1", "aws", 2), asks("rt-b", "ga-2", "aws", 1)...)
	for _, e := range all { // one after the other: two at once may try to claim the same
		l.provision(e)
		l.assigned(e)
	}
	first, second := l.assigned(all[0]), l.assigned(all[2])
	bad := ask("rt-bad", "ga-1")
	bad.Provision.Plan = "no-such-plan"
	l.provision(bad)
	l.answered(bad)
	l.awaitSettled()
	for series, want := range map[string]string{
		`keb_credentials_bindings_per_ga{eu_access="false",global_account_id="ga-1",hyperscaler_type="aws",pool="aws",shared="false"}`: "1",
		`keb_credentials_bindings_per_ga{eu_access="false",global_account_id="ga-2",hyperscaler_type="aws",pool="aws",shared="false"}`: "1",
		`keb_shoots_per_credentials_binding{credentials_binding="` + first + `",hyperscaler_type="aws"}`:                               "2",
		`keb_shoots_per_credentials_binding{credentials_binding="` + second + `",hyperscaler_type="aws"}`:                              "1",
		`keb_shoots_per_credentials_binding{credentials_binding="gcp-01",hyperscaler_type="gcp"}`:                                      "0",
		`keb_available_credentials_bindings{eu_access="false",hyperscaler_type="aws",pool="aws",shared="false"}`:                       "1",
		`keb_available_credentials_bindings{eu_access="false",hyperscaler_type="gcp",pool="gcp",shared="false"}`:                       "1",
		`hap_events_total{code="",outcome="ack",type="provision"}`:                                                                     "3",
		`hap_events_total{code="NoMatchingRule",outcome="bury",type="provision"}`:                                                      "1",
		`hap_dead_letters_total{code="NoMatchingRule",type="provision"}`:                                                               "1",
		`hap_decisions_total{origin="claimed",pool="aws"}`:                                                                             "2",
		`hap_decisions_total{origin="own",pool="aws"}`:                                                                                 "1",
		`hap_claims_total{result="ok"}`: "2",
		`hap_consumer_up`:               "1",
		`hap_inflight_events`:           "0",
		`hap_redis_built`:               "1",
		`hap_event_duration_seconds_count{outcome="ack",type="provision"}`: "3",
		`hap_claim_duration_seconds_count`:                                 "2",
		`hap_time_to_assign_seconds_count{pool="aws"}`:                     "3",
		`hap_pool_bindings{pool="aws",state="free"}`:                       "1",
	} {
		l.shows(w, series, want)
	}
	if got := w.metric(`hap_redis_duration_seconds_count{op="assign"}`); got == "" || got == "0" {
		t.Errorf("calls of Redis are counted as %q", got)
	}
}
