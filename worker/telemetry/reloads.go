package telemetry

import (
	"context"
	"maps"
	"sync"

	"go.opentelemetry.io/otel/metric"
)

// Configured names a configuration that a worker reads again while it runs.
type Configured string

// The values of Configured.
const (
	WorkerConfig    Configured = "configuration" // the worker's file
	NetworkConfig   Configured = "network"       // the IPAMConfig, or its file
	PolicyConfig    Configured = "policy"        // the ConfigMap, or its file
	PolicyCatalog   Configured = "catalog"
	PolicyInstances Configured = "typeInstances"
)

// reloads counts changed configurations, and knows which are refused.
type reloads struct {
	applied, failed metric.Int64Counter

	mu      sync.Mutex
	refused map[Configured]bool // of those that were reloaded
}

// Reload reports a changed configuration: applied if err is nil, otherwise refused.
func (m *Metrics) Reload(ctx context.Context, what Configured, err error) {
	m.reloads.set(what, err != nil)
	if err != nil {
		m.reloads.failed.Add(ctx, 1)
		return
	}
	m.reloads.applied.Add(ctx, 1)
}

// Removed reports that a configuration no longer exists. So it is not refused any more.
func (m *Metrics) Removed(what Configured) { m.reloads.set(what, false) }

func (r *reloads) set(what Configured, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused[what] = refused
}

func (r *reloads) now() map[Configured]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.refused)
}

func (r *reloads) observe(b *builder) {
	r.refused = map[Configured]bool{WorkerConfig: false}
	r.applied = b.counter("hap_config_reloads_total", "Changed configurations taken over.")
	r.failed = b.counter("hap_config_reload_failures_total", "Changed configurations refused.")
	r.applied.Add(context.Background(), 0)
	r.failed.Add(context.Background(), 0)
	refused := b.gauge("hap_config_refused", "1 while a changed configuration is refused and the last valid one is in use, by source.")
	_, err := b.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for what, is := range r.now() {
			var n int64
			if is {
				n = 1
			}
			o.ObserveInt64(refused, n, with("source", string(what)))
		}
		return nil
	}, refused)
	b.errs = append(b.errs, err)
}
