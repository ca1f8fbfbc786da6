package telemetry

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/propagation"
)

// collector takes what is sent over OTLP and keeps it by path.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	received map[string][]byte
	header   http.Header
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{received: map[string][]byte{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.received[r.URL.Path] = append(c.received[r.URL.Path], body...)
		c.header = r.Header.Clone()
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) has(t *testing.T, path, text string) bool {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.received[path], []byte(text))
}

func TestTracesAndMetricsAreSent(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"url", "host and port"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			o := Options{Endpoint: c.URL, TraceRatio: 1, Headers: map[string]string{"x-key": "k"}, Instance: "w-1", Version: "1.2.3"}
			if form != "url" {
				o.Endpoint, o.Insecure = c.Listener.Addr().String(), true
			}
			telemetry, err := New(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			_, span := telemetry.Tracer.Start(context.Background(), "settle an event")
			span.End()
			record(telemetry.Metrics)
			if err := telemetry.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			for _, want := range [][2]string{
				{"/v1/traces", "settle an event"},
				{"/v1/traces", "hap-worker"},
				{"/v1/traces", "w-1"},
				{"/v1/metrics", "hap_events_total"},
				{"/v1/metrics", "keb_available_credentials_bindings"},
				{"/v1/metrics", "1.2.3"},
			} {
				if !c.has(t, want[0], want[1]) {
					t.Errorf("%s did not get %q", want[0], want[1])
				}
			}
			if c.header.Get("X-Key") != "k" {
				t.Errorf("headers were %v", c.header)
			}
		})
	}
}

// TestShadowSaysSoOverOTLP: each series that is sent has the label mode, where it has it when it is scraped.
func TestShadowSaysSoOverOTLP(t *testing.T) {
	t.Parallel()
	part := regexp.MustCompile(`^(?:#|$)|_(?:bucket|sum)\{`) // a histogram is sent as one
	for _, shadow := range []bool{false, true} {
		c := newCollector(t)
		telemetry, err := New(context.Background(), Options{Endpoint: c.URL, Shadow: shadow, TenantLabel: true})
		if err != nil {
			t.Fatal(err)
		}
		record(telemetry.Metrics)
		want := 0
		for line := range strings.SplitSeq(scrape(t, telemetry, "hap_", "keb_"), "\n") {
			if shadow && !part.MatchString(line) {
				want++
			}
		}
		if err := telemetry.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		const label = "\x0a\x04mode\x12\x08\x0a\x06shadow" // as protobuf
		if got := bytes.Count(c.received["/v1/metrics"], []byte(label)); got != want || shadow && want < 50 {
			t.Errorf("shadow %t: %d series sent with the label, want %d", shadow, got, want)
		}
	}
}

// TestHTTPSIsNotSentInTheClear: insecure is for host:port alone.
func TestHTTPSIsNotSentInTheClear(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	telemetry, err := New(context.Background(), Options{Endpoint: "https://" + c.Listener.Addr().String(), Insecure: true, TraceRatio: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, span := telemetry.Tracer.Start(context.Background(), "secret")
	span.End()
	record(telemetry.Metrics)
	if err := telemetry.Shutdown(context.Background()); err == nil {
		t.Error("a server without TLS took what is for https")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.received) > 0 {
		t.Errorf("sent in the clear: %v", c.received)
	}
}

// TestIdsWithoutAnEndpoint: logs and replies carry ids also where nothing is sent.
func TestIdsWithoutAnEndpoint(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{})
	_, span := telemetry.Tracer.Start(context.Background(), "an event")
	defer span.End()
	if !span.SpanContext().IsValid() || span.IsRecording() {
		t.Errorf("the span is %v, recording %v", span.SpanContext(), span.IsRecording())
	}
}

const sampledParent = "00-ab000000000000000000000000000001-cd00000000000002-01"

// TestTheParentDecides: a publisher's trace is continued whatever the ratio.
func TestTheParentDecides(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	telemetry := start(t, Options{Endpoint: c.URL, TraceRatio: 0})
	carrier := propagation.MapCarrier{"traceparent": sampledParent}
	ctx := telemetry.Propagator.Extract(context.Background(), carrier)
	ctx, span := telemetry.Tracer.Start(ctx, "an event")
	defer span.End()
	if got := span.SpanContext().TraceID().String(); got != traceID || !span.SpanContext().IsSampled() {
		t.Errorf("the span is of trace %s, sampled %v", got, span.SpanContext().IsSampled())
	}
	onward := propagation.MapCarrier{}
	telemetry.Propagator.Inject(ctx, onward)
	if onward["traceparent"] == "" || onward["traceparent"] == sampledParent {
		t.Errorf("handed on %q", onward["traceparent"])
	}
	_, own := telemetry.Tracer.Start(context.Background(), "without a parent")
	defer own.End()
	if own.SpanContext().IsSampled() {
		t.Error("a trace is recorded at ratio 0")
	}
}
