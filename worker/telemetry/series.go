package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/hap-worker/hap-worker/worker/crash"
)

// labelled keeps the label set of every key that it has seen, so that a
// measurement looks it up instead of building and sorting it.
type labelled[K comparable, O any] struct {
	mu     sync.RWMutex
	sets   map[K][]O
	max    int
	labels func(K) []attribute.KeyValue
	option func(metric.MeasurementOption) O
	rest   []O // the label set of all keys beyond the first max: "other" in every label
}

func (l *labelled[K, O]) of(key K) []O {
	l.mu.RLock()
	options, seen := l.sets[key]
	l.mu.RUnlock()
	if seen {
		return options
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if options, seen = l.sets[key]; seen {
		return options
	}
	labels := l.labels(key)
	if len(l.sets) < l.max {
		options = []O{l.option(metric.WithAttributeSet(attribute.NewSet(labels...)))}
		l.sets[key] = options
		return options
	}
	if l.rest == nil {
		for i := range labels {
			labels[i].Value = attribute.StringValue(other)
		}
		l.rest = []O{l.option(metric.WithAttributeSet(attribute.NewSet(labels...)))}
	}
	return l.rest
}

type counter[K comparable] struct {
	instrument metric.Int64Counter
	sets       labelled[K, metric.AddOption]
}

func newCounter[K comparable](instrument metric.Int64Counter, limit int, labels func(K) []attribute.KeyValue) *counter[K] {
	return &counter[K]{instrument: instrument, sets: labelled[K, metric.AddOption]{
		sets: map[K][]metric.AddOption{}, max: limit, labels: labels,
		option: func(o metric.MeasurementOption) metric.AddOption { return o },
	}}
}

func (c *counter[K]) add(ctx context.Context, key K, n int64) {
	c.instrument.Add(ctx, n, c.sets.of(key)...)
}

type histogram[K comparable] struct {
	instrument metric.Float64Histogram
	sets       labelled[K, metric.RecordOption]
}

func newHistogram[K comparable](instrument metric.Float64Histogram, labels func(K) []attribute.KeyValue) *histogram[K] {
	return &histogram[K]{instrument: instrument, sets: labelled[K, metric.RecordOption]{
		sets: map[K][]metric.RecordOption{}, max: maxSeries, labels: labels,
		option: func(o metric.MeasurementOption) metric.RecordOption { return o },
	}}
}

func (h *histogram[K]) record(ctx context.Context, key K, took time.Duration) {
	h.instrument.Record(ctx, took.Seconds(), h.sets.of(key)...)
}

// builder creates instruments and collects the errors.
type builder struct {
	meter metric.Meter
	errs  []error
}

func (b *builder) counter(name, description string) metric.Int64Counter {
	instrument, err := b.meter.Int64Counter(name, metric.WithDescription(description))
	b.errs = append(b.errs, err)
	return instrument
}

// panics counts the panics of the whole process.
func (b *builder) panics() {
	_, err := b.meter.Int64ObservableCounter("hap_panics_total", metric.WithDescription("Panics that were recovered."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(crash.Total())
			return nil
		}))
	b.errs = append(b.errs, err)
}

func (b *builder) histogram(name, description string, bounds []float64) metric.Float64Histogram {
	instrument, err := b.meter.Float64Histogram(name, metric.WithDescription(description),
		metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(bounds...))
	b.errs = append(b.errs, err)
	return instrument
}

func (b *builder) gauge(name, description string) metric.Int64ObservableGauge {
	instrument, err := b.meter.Int64ObservableGauge(name, metric.WithDescription(description))
	b.errs = append(b.errs, err)
	return instrument
}

// seconds returns a gauge of a duration.
func (b *builder) seconds(name, description string) metric.Float64ObservableGauge {
	instrument, err := b.meter.Float64ObservableGauge(name, metric.WithDescription(description), metric.WithUnit("s"))
	b.errs = append(b.errs, err)
	return instrument
}
