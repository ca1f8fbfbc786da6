package worker

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// eventSpan begins the span of an event, in the publisher's trace where it sent one.
func (w *Worker) eventSpan(ctx context.Context, d *delivery) (context.Context, func()) {
	ctx, span := w.opts.Tracer.Start(d.event.TraceContext(ctx), d.kind(),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("messaging.system", "nats"),
			attribute.String("messaging.destination.name", d.msg.Subject()),
			attribute.String("messaging.message.id", d.event.ID),
			attribute.String("hap.runtime", d.event.RuntimeID),
		))
	return ctx, func() { span.End() }
}

// span begins a part of an event's span.
func (w *Worker) span(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, func()) {
	ctx, span := w.opts.Tracer.Start(ctx, name, trace.WithAttributes(attributes...))
	return ctx, func() { span.End() }
}
