package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const scope = "github.com/hap-worker/hap-worker"

// Options are the settings of New.
type Options struct {
	// Service is the name in traces. Defaults to hap-worker.
	Service string
	// Version is that of the program. Defaults to none.
	Version string
	// Instance tells workers apart. Defaults to none.
	Instance string
	// Endpoint is the OTLP collector, a URL or host:port. Defaults to none: nothing is sent.
	Endpoint string
	// Insecure takes http where Endpoint is host:port. Defaults to false.
	Insecure bool
	// Headers are sent to Endpoint with every request. Defaults to none.
	Headers map[string]string
	// TraceRatio is the share of traces without a parent that are recorded, 0 to 1;
	// with a parent, its decision holds. Defaults to 0.
	TraceRatio float64
	// TenantLabel gives events and decisions the label global_account_id. Defaults to false.
	TenantLabel bool
	// TenantMetrics shows keb_credentials_bindings_per_ga, which names tenants. TenantLabel
	// shows it, too. Defaults to false.
	TenantMetrics bool
}

// Telemetry is the metrics and traces of one worker. It shares nothing with
// another one in the same process.
type Telemetry struct {
	// Metrics are the instruments.
	Metrics *Metrics
	// Tracer begins spans. Without an endpoint they have ids and are not recorded.
	Tracer trace.Tracer
	// Propagator reads and writes traceparent.
	Propagator propagation.TextMapPropagator

	registry *prometheus.Registry
	meters   *sdkmetric.MeterProvider
	traces   interface{ Shutdown(context.Context) error }
}

// New sets everything up. An endpoint that does not answer is no error: what
// could not be sent is reported to OpenTelemetry's error handler.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Service == "" {
		o.Service = "hap-worker"
	}
	t := &Telemetry{registry: prometheus.NewRegistry(), Propagator: propagation.TraceContext{}}
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	identity := identify(o)
	if err := t.startTraces(ctx, o, identity); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	if err := t.startMeters(ctx, o, identity); err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), t.traces.Shutdown(ctx))
	}
	metrics, err := newMetrics(t.meters.Meter(scope), o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), t.Shutdown(ctx))
	}
	t.Metrics = metrics
	return t, nil
}

// Handler serves the metrics in the formats of Prometheus.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{Registry: t.registry, EnableOpenMetrics: true})
}

// Shutdown sends what has not been sent yet, as long as ctx allows.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	return errors.Join(t.traces.Shutdown(ctx), t.meters.Shutdown(ctx))
}

func identify(o Options) *resource.Resource {
	attributes := []attribute.KeyValue{attribute.String("service.name", o.Service)}
	if o.Version != "" {
		attributes = append(attributes, attribute.String("service.version", o.Version))
	}
	if o.Instance != "" {
		attributes = append(attributes, attribute.String("service.instance.id", o.Instance))
	}
	return resource.NewSchemaless(attributes...)
}

func (t *Telemetry) startTraces(ctx context.Context, o Options, identity *resource.Resource) error {
	if o.Endpoint == "" {
		t.traces, t.Tracer = untraced{}, idTracer{}
		return nil
	}
	options := []otlptracehttp.Option{otlptracehttp.WithHeaders(o.Headers)}
	if strings.Contains(o.Endpoint, "://") {
		options = append(options, otlptracehttp.WithEndpointURL(signal(o.Endpoint, "traces")))
	} else {
		options = append(options, otlptracehttp.WithEndpoint(o.Endpoint))
	}
	if o.Insecure {
		options = append(options, otlptracehttp.WithInsecure())
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return err
	}
	traces := sdktrace.NewTracerProvider(
		sdktrace.WithResource(identity),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.TraceRatio))),
		sdktrace.WithBatcher(exporter),
	)
	t.traces, t.Tracer = traces, traces.Tracer(scope)
	return nil
}

// idTracer gives what has no trace yet the ids of one, by which its log lines are found.
type idTracer struct{ noop.Tracer }

// Start leaves a context that has a trace as it is.
func (idTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		var ids trace.SpanContextConfig
		binary.LittleEndian.PutUint64(ids.TraceID[:8], rand.Uint64())
		binary.LittleEndian.PutUint64(ids.TraceID[8:], rand.Uint64()|1) // never all zero
		binary.LittleEndian.PutUint64(ids.SpanID[:], rand.Uint64()|1)
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(ids))
	}
	return ctx, trace.SpanFromContext(ctx)
}

// untraced is what there is to end without traces.
type untraced struct{}

func (untraced) Shutdown(context.Context) error { return nil }

func (t *Telemetry) startMeters(ctx context.Context, o Options, identity *resource.Resource) error {
	scraped, err := otelprometheus.New(
		otelprometheus.WithRegisterer(t.registry),
		otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes),
		otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithoutTargetInfo(),
	)
	if err != nil {
		return err
	}
	options := []sdkmetric.Option{
		sdkmetric.WithResource(identity),
		sdkmetric.WithReader(scraped),
		sdkmetric.WithCardinalityLimit(0), // there is one series per binding and tenant; all others are bounded by Metrics
	}
	if o.Endpoint != "" {
		exporter, err := metricExporter(ctx, o)
		if err != nil {
			return err
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	}
	t.meters = sdkmetric.NewMeterProvider(options...)
	return nil
}

func metricExporter(ctx context.Context, o Options) (*otlpmetrichttp.Exporter, error) {
	options := []otlpmetrichttp.Option{otlpmetrichttp.WithHeaders(o.Headers)}
	if strings.Contains(o.Endpoint, "://") {
		options = append(options, otlpmetrichttp.WithEndpointURL(signal(o.Endpoint, "metrics")))
	} else {
		options = append(options, otlpmetrichttp.WithEndpoint(o.Endpoint))
	}
	if o.Insecure {
		options = append(options, otlpmetrichttp.WithInsecure())
	}
	return otlpmetrichttp.New(ctx, options...)
}

// signal is the URL of one signal below the collector's, as the specification of
// OTEL_EXPORTER_OTLP_ENDPOINT has it.
func signal(endpoint, name string) string {
	return strings.TrimSuffix(endpoint, "/") + "/v1/" + name
}
