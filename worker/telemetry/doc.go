// Package telemetry is what operators see of a worker while it runs: logs that
// carry the ids of traces, metrics for Prometheus and OTLP, traces, and the HTTP
// listener with /metrics, /healthz and /readyz. docs/telemetry.md lists every
// name. The package knows nothing of events or stores: callers hand it facts.
package telemetry
