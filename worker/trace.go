package worker

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/hap-worker/hap-worker/ledger/tracing"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// eventSpan starts the span of an event, in the publisher's trace if the event carries one.
func (h *Handler) eventSpan(ctx context.Context, d *delivery, subject string) (context.Context, func()) {
	ctx, span := h.tracer.Start(tracing.Context(ctx, d.event), d.kind(),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("messaging.system", "nats"),
			attribute.String("messaging.destination.name", subject),
			attribute.String("messaging.message.id", d.event.ID),
			attribute.String("hap.runtime", d.event.RuntimeID),
		))
	return ctx, func() { span.End() }
}

// settledAs sets the outcome as attributes of the span of ctx.
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
	happenedClaim   = "claim "               // followed by the ClaimResult of a label that was not written
	happenedRetry   = "trying again"         // after an error that is not futile
	happenedAnother = "another reply stands" // another worker was faster with a reply to the request
)

// happened adds an event to the span of ctx.
func happened(ctx context.Context, what string, err error, attributes ...attribute.KeyValue) {
	if err != nil {
		attributes = append(attributes, attribute.String("error", err.Error()))
	}
	trace.SpanFromContext(ctx).AddEvent(what, trace.WithAttributes(attributes...))
}

// span starts a child span if the span of ctx is recorded.
func (h *Handler) span(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, func()) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, func() {}
	}
	ctx, span := h.tracer.Start(ctx, name, trace.WithAttributes(attributes...))
	return ctx, func() { span.End() }
}
