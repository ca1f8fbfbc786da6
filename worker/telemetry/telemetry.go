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

	"github.com/hap-worker/hap-worker/worker/build"
)

const scope = "github.com/hap-worker/hap-worker"

// Options are the settings of New.
type Options struct {
	// Service is the name in traces. Defaults to hap-worker.
	Service string
	// Version is the version of the program. Defaults to none.
	Version string
	// Build has the labels of hap_build_info. Defaults to the build of the running program.
	Build build.Info
	// Instance is a name that distinguishes workers. Defaults to none.
	Instance string
	// Shadow adds the label mode="shadow" to all series of hap-worker (hap_… and keb_…), so that no alert takes a shadow's
	// decisions, which no publisher receives, for a worker's. Defaults to false.
	Shadow bool
	// Endpoint is the OTLP collector, a URL or host:port. Defaults to none: nothing is sent.
	Endpoint string
	// Insecure selects http if Endpoint is host:port. Defaults to false.
	Insecure bool
	// Headers are sent to Endpoint with every request. Defaults to none.
	Headers map[string]string
	// TraceRatio is the share of recorded traces, 0 to 1. It applies to traces without a
	// parent; others follow the decision of their parent. Defaults to 0.
	TraceRatio float64
	// TenantLabel adds the label global_account_id to events and decisions. Defaults to false.
	TenantLabel bool
	// TenantMetrics enables keb_credentials_bindings_per_ga, which names tenants. TenantLabel
	// enables it too. Defaults to false.
	TenantMetrics bool
}

// Telemetry has the metrics and traces of one worker. Workers in the same process share only what is counted for the
// whole process, such as its panics.
type Telemetry struct {
	// Metrics are the instruments.
	Metrics *Metrics
	// Tracer starts spans. Without an endpoint, spans have ids but are not recorded.
	Tracer trace.Tracer
	// Propagator reads and writes traceparent.
	Propagator propagation.TextMapPropagator

	registry *prometheus.Registry
	meters   *sdkmetric.MeterProvider
	traces   interface{ Shutdown(context.Context) error }
}

// New sets everything up. It does not fail if the endpoint does not answer: OpenTelemetry's error
// handler receives the errors of sending.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Service == "" {
		o.Service = "hap-worker"
	}
	if o.Build == (build.Info{}) {
		o.Build = build.Read()
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

// Shutdown stops traces and metrics. It first sends the pending data, as far as it can before ctx ends.
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
		if o.Insecure {
			options = append(options, otlptracehttp.WithInsecure()) // would have a URL's https ignored, too
		}
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

// idTracer creates a trace id if there is none, so that related log records can be found.
type idTracer struct{ noop.Tracer }

// Start does not change a context that has a trace.
func (idTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		var ids trace.SpanContextConfig
		binary.LittleEndian.PutUint64(ids.TraceID[:8], rand.Uint64())
		binary.LittleEndian.PutUint64(ids.TraceID[8:], rand.Uint64()|1) // an id must not be zero
		binary.LittleEndian.PutUint64(ids.SpanID[:], rand.Uint64()|1)
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(ids))
	}
	return ctx, trace.SpanFromContext(ctx)
}

// untraced stands for the exporter of traces if there is no endpoint.
type untraced struct{}

func (untraced) Shutdown(context.Context) error { return nil }

func (t *Telemetry) startMeters(ctx context.Context, o Options, identity *resource.Resource) error {
	var registerer prometheus.Registerer = t.registry
	if o.Shadow {
		registerer = prometheus.WrapRegistererWith(prometheus.Labels{string(shadowMode.Key): shadowMode.Value.AsString()}, t.registry)
	}
	scraped, err := otelprometheus.New(
		otelprometheus.WithRegisterer(registerer),
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
		sdkmetric.WithCardinalityLimit(0), // Metrics limits the series whose labels publishers can choose
	}
	if o.Endpoint != "" {
		exporter, err := metricExporter(ctx, o)
		if err != nil {
			return err
		}
		if o.Shadow {
			exporter = shadowed{exporter}
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	}
	t.meters = sdkmetric.NewMeterProvider(options...)
	return nil
}

func metricExporter(ctx context.Context, o Options) (sdkmetric.Exporter, error) {
	options := []otlpmetrichttp.Option{otlpmetrichttp.WithHeaders(o.Headers)}
	if strings.Contains(o.Endpoint, "://") {
		options = append(options, otlpmetrichttp.WithEndpointURL(signal(o.Endpoint, "metrics")))
	} else {
		options = append(options, otlpmetrichttp.WithEndpoint(o.Endpoint))
		if o.Insecure {
			options = append(options, otlpmetrichttp.WithInsecure())
		}
	}
	return otlpmetrichttp.New(ctx, options...)
}

// signal returns the URL of one signal below the collector's URL, according to the specification of
// OTEL_EXPORTER_OTLP_ENDPOINT.
func signal(endpoint, name string) string {
	return strings.TrimSuffix(endpoint, "/") + "/v1/" + name
}
