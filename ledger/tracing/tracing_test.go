package tracing_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/tracing"
)

// The carrier keeps names as they are and finds them in any case.
func TestTraceCarrier(t *testing.T) {
	t.Parallel()
	header := nats.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	carrier := tracing.Carrier(header)
	if carrier.Get("traceparent") == "" || len(carrier.Keys()) != 1 {
		t.Errorf("%v", carrier)
	}
	carrier.Set("tracestate", "a=b")
	if got := header["tracestate"]; len(got) != 1 || got[0] != "a=b" {
		t.Errorf("%v", header)
	}
	e := events.Event{Traceparent: carrier.Get("traceparent"), Tracestate: "a=b"}
	span := trace.SpanContextFromContext(tracing.Context(context.Background(), e))
	if !span.IsRemote() || span.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || span.TraceState().Get("a") != "b" {
		t.Errorf("%+v", span)
	}
	if span := trace.SpanContextFromContext(tracing.Context(context.Background(), events.Event{})); span.IsValid() {
		t.Errorf("a trace out of nothing: %+v", span)
	}
}
