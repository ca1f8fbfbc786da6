package daemon

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"k8s.io/klog/v2"

	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/gardener/kube"
)

// logLibraries has the libraries that log by themselves use the process's log, so that each of its lines has the
// configured format.
func logLibraries(log *slog.Logger) {
	klog.SetSlogLogger(log)
	// At level debug: failures of calls of Redis are also returned to the callers, which report them.
	connection.LogBy(func(ctx context.Context, line string) { log.DebugContext(ctx, "Redis library", "line", line) })
	var failures kube.Failures
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if failures.Add(err, time.Now()) { // every export fails while the collector is away
			log.Warn("telemetry failed", "error", err)
		}
	}))
}
