package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"
)

// NewLogger returns a logger that writes to w, in the format json or text, records of level and
// above. If level is a slog.LevelVar, it can be changed later. If the context of a record has a span,
// the record has its trace_id and span_id.
func NewLogger(w io.Writer, format string, level slog.Leveler) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case "json":
		return slog.New(WithTrace(slog.NewJSONHandler(w, options))), nil
	case "text":
		return slog.New(WithTrace(slog.NewTextHandler(w, options))), nil
	default:
		return nil, fmt.Errorf("unknown log format %q; use json or text", format)
	}
}

// ParseLevel parses a level as package slog does: debug, info, warn or error, also with an offset such as info+2.
func ParseLevel(name string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return 0, fmt.Errorf("unknown log level %q; use debug, info, warn or error", name)
	}
	return level, nil
}

// WithTrace adds trace_id and span_id to the records of next. They are top-level attributes, like
// time and msg, even if a logger has groups.
func WithTrace(next slog.Handler) slog.Handler { return &traceHandler{Handler: next, outer: next} }

type traceHandler struct {
	slog.Handler
	outer slog.Handler                      // the handler before the first group was opened
	inner []func(slog.Handler) slog.Handler // the calls of WithGroup and WithAttrs since then, the first included
}

func (h *traceHandler) Handle(ctx context.Context, record slog.Record) error {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return h.Handler.Handle(ctx, record)
	}
	ids := []slog.Attr{
		slog.String("trace_id", span.TraceID().String()),
		slog.String("span_id", span.SpanID().String()),
	}
	if len(h.inner) == 0 {
		record = record.Clone()
		record.AddAttrs(ids...)
		return h.Handler.Handle(ctx, record)
	}
	next := h.outer.WithAttrs(ids)
	for _, step := range h.inner {
		next = step(next)
	}
	return next.Handle(ctx, record)
}

func (h *traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(h.inner) == 0 {
		return WithTrace(h.Handler.WithAttrs(attrs))
	}
	return h.step(func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) })
}

func (h *traceHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.step(func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

func (h *traceHandler) step(step func(slog.Handler) slog.Handler) slog.Handler {
	inner := append(slices.Clip(h.inner), step)
	return &traceHandler{Handler: step(h.Handler), outer: h.outer, inner: inner}
}
