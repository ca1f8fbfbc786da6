package telemetry

import (
	"context"
	"maps"

	"go.opentelemetry.io/otel/metric"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
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

// audited records what an audit left. After an error the last result stays. An audit of a part lowers nothing:
// what it did not compare may still drift.
func (m *Metrics) audited(_ context.Context, d observe.Drift) {
	if d.Err != nil {
		return
	}
	left := d.Left()
	if len(d.NotBuilt) > 0 {
		maps.DeleteFunc(left, func(_ account.DriftKind, n int) bool { return n == 0 })
		if before := m.drift.Load(); before != nil {
			for kind, n := range *before {
				left[kind] = max(left[kind], n)
			}
		}
	}
	m.drift.Store(&left)
}
