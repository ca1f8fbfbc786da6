package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

func spanned() context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0: 0xab, 15: 1}, SpanID: trace.SpanID{0: 0xcd, 7: 2},
	}))
}

const (
	traceID = "ab000000000000000000000000000001"
	spanID  = "cd00000000000002"
)

// withoutTime cuts the first attribute, which is the time.
func withoutTime(line string) string {
	_, rest, _ := strings.Cut(line, "level")
	return strings.TrimSpace(strings.TrimLeft(rest, `":=`))
}

func TestLogsCarryTheTrace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, format string
		log          func(*slog.Logger)
		want         string
	}{
		{
			"json", "json",
			func(l *slog.Logger) { l.InfoContext(spanned(), "hello", "a", 1) },
			`INFO","msg":"hello","a":1,"trace_id":"` + traceID + `","span_id":"` + spanID + `"}`,
		},
		{
			"text", "text",
			func(l *slog.Logger) { l.InfoContext(spanned(), "hello", "a", 1) },
			`INFO msg=hello a=1 trace_id=` + traceID + ` span_id=` + spanID,
		},
		{
			"without a span", "json",
			func(l *slog.Logger) { l.InfoContext(context.Background(), "hello") },
			`INFO","msg":"hello"}`,
		},
		{
			"beside the groups, not in them", "json",
			func(l *slog.Logger) {
				l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("").WithGroup("h").InfoContext(spanned(), "hello", "c", 3)
			},
			`INFO","msg":"hello","a":1,"trace_id":"` + traceID + `","span_id":"` + spanID + `","g":{"b":2,"h":{"c":3}}}`,
		},
		{
			"groups without a span", "json",
			func(l *slog.Logger) { l.WithGroup("g").With("b", 2).Info("hello", "c", 3) },
			`INFO","msg":"hello","g":{"b":2,"c":3}}`,
		},
		{"below the level", "json", func(l *slog.Logger) { l.Debug("hello") }, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			logger, err := NewLogger(&out, test.format, slog.LevelInfo)
			if err != nil {
				t.Fatal(err)
			}
			test.log(logger)
			if got := withoutTime(out.String()); got != test.want {
				t.Errorf("logged %s\nwant   %s", got, test.want)
			}
		})
	}
}

// TestSiblingLoggersShareNothing derives two loggers from one that has a group.
func TestSiblingLoggersShareNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger, err := NewLogger(&out, "json", slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	parent := logger.WithGroup("g").With("p", 0)
	first, second := parent.With("x", 1), parent.With("x", 2)
	first.InfoContext(spanned(), "m")
	second.InfoContext(spanned(), "m")
	if got := out.String(); strings.Count(got, `"g":{"p":0,"x":1}`) != 1 || strings.Count(got, `"g":{"p":0,"x":2}`) != 1 {
		t.Errorf("logged %s", got)
	}
}

func TestTheLevelCanBeChanged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var level slog.LevelVar
	logger, err := NewLogger(&out, "text", &level)
	if err != nil {
		t.Fatal(err)
	}
	logger.Debug("before")
	parsed, err := ParseLevel("debug")
	if err != nil {
		t.Fatal(err)
	}
	level.Set(parsed)
	logger.Debug("after")
	if got := out.String(); strings.Contains(got, "before") || !strings.Contains(got, "after") {
		t.Errorf("logged %s", got)
	}
}

func TestUnknownFormatsAndLevels(t *testing.T) {
	t.Parallel()
	if _, err := NewLogger(&bytes.Buffer{}, "xml", slog.LevelInfo); err == nil {
		t.Error("the format xml was taken")
	}
	if _, err := ParseLevel("loud"); err == nil {
		t.Error("the level loud was taken")
	}
}
