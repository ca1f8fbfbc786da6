// Package telemetry shows operators what a worker does: logs with the ids of traces, metrics for
// Prometheus and OTLP, traces, and the HTTP listener with /metrics, /healthz and /readyz.
// docs/telemetry.md lists all names. The package reads no streams and no stores: callers pass it
// facts.
package telemetry
