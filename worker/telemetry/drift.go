package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// observeDrift creates the gauge of the drifts that remain after the last successful audit, by kind.
// Before the first one the gauge is absent.
func (m *Metrics) observeDrift(b *builder) {
	gauge := b.gauge("hap_drift", "Differences between Redis, ledger, labels and Shoots that the last audit left, by kind.")
	_, err := b.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if left := m.drift.Load(); left != nil {
			for kind, n := range *left {
				o.ObserveInt64(gauge, int64(n), with("kind", string(kind)))
			}
		}
		return nil
	}, gauge)
	b.errs = append(b.errs, err)
}
