// Package tracing carries trace contexts, as W3C Trace Context defines them, in messages.
package tracing

import (
	"context"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"

	"github.com/hap-worker/hap-worker/events"
)

// Carrier carries trace context in the headers of a message, as a
// propagation.TextMapCarrier. Names stay as they are: the canonical case of
// http.Header would hide traceparent from readers in other languages.
type Carrier nats.Header

var _ propagation.TextMapCarrier = Carrier{}

// Get returns the first value; it ignores the case of the name.
func (c Carrier) Get(key string) string { return events.HeaderValue(nats.Header(c), key) }

// Set replaces the value.
func (c Carrier) Set(key, value string) { c[key] = []string{value} }

// Keys are the names of all headers.
func (c Carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}

// Context returns ctx with the trace of the event, ctx itself if the event has none.
func Context(ctx context.Context, e events.Event) context.Context {
	if e.Traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, Carrier{"traceparent": {e.Traceparent}, "tracestate": {e.Tracestate}})
}

// Inject writes the trace of ctx into the header; it changes nothing if ctx has none.
func Inject(ctx context.Context, header nats.Header) {
	propagation.TraceContext{}.Inject(ctx, Carrier(header))
}
