package worker

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/hap-worker/hap-worker/worker/observe"
)

// eventSpan begins the span of an event, in the publisher's trace where it sent one.
func (h *Handler) eventSpan(ctx context.Context, d *delivery, subject string) (context.Context, func()) {
	ctx, span := h.tracer.Start(d.event.TraceContext(ctx), d.kind(),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("messaging.system", "nats"),
			attribute.String("messaging.destination.name", subject),
			attribute.String("messaging.message.id", d.event.ID),
			attribute.String("hap.runtime", d.event.RuntimeID),
		))
	return ctx, func() { span.End() }
}

// settledAs completes a span of an event with what became of it.
func settledAs(ctx context.Context, i *observe.Event) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	for key, value := range map[string]string{
		"hap.outcome": string(i.Outcome), "hap.status": i.Status, "hap.code": string(i.Code), "hap.reason": i.Reason, "hap.binding": i.Binding,
	} {
		if value != "" {
			span.SetAttributes(attribute.String(key, value))
		}
	}
}

// The events of spans.
const (
	happenedClaim   = "claim "               // with the ClaimResult: how one ended that was not written
	happenedRetry   = "trying again"         // what failed for now
	happenedAnother = "another reply stands" // another worker had answered the request, or moved its waiting on
)

// happened notes on the span of ctx what went another way than hoped for.
func happened(ctx context.Context, what string, err error, attributes ...attribute.KeyValue) {
	if err != nil {
		attributes = append(attributes, attribute.String("error", err.Error()))
	}
	trace.SpanFromContext(ctx).AddEvent(what, trace.WithAttributes(attributes...))
}

// span begins a part of an event's span, where that is recorded.
func (h *Handler) span(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, func()) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, func() {}
	}
	ctx, span := h.tracer.Start(ctx, name, trace.WithAttributes(attributes...))
	return ctx, func() { span.End() }
}
