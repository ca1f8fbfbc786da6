package telemetry

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/hap-worker/hap-worker/worker/observe"
)

// queueMetrics has the source of the metrics of a worker's load: its queue, slow events and circuits.
type queueMetrics struct {
	load atomic.Pointer[func() observe.Load]
}

// Load registers a function that returns the load of the worker.
func (m *Metrics) Load(now func() observe.Load) { m.queue.load.Store(&now) }

func (m *Metrics) observeQueue(b *builder) {
	queued := b.gauge("hap_queued_events", "Events that the worker has taken and not begun, by class.")
	flows := b.gauge("hap_queued_flows", "Tenants and classes that have queued events.")
	slow := b.gauge("hap_slow_events", "Events that wait for Gardener and take no place.")
	excess, err := b.meter.Int64ObservableCounter("hap_events_handed_back_total",
		metric.WithDescription("Events that went back to the stream before they were begun, since the queue was full."))
	b.errs = append(b.errs, err)
	open := b.gauge("hap_circuit_open", "1 while a dependency fails or hangs and is called only once a second, by dependency and pool.")
	_, err = b.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := m.queue.load.Load()
		if now == nil {
			return nil
		}
		load := (*now)()
		for _, c := range load.Queued {
			o.ObserveInt64(queued, int64(c.Events), with("class", c.Class))
		}
		o.ObserveInt64(flows, int64(load.Flows))
		o.ObserveInt64(slow, int64(load.Slow))
		o.ObserveInt64(excess, load.HandedBack)
		for _, c := range load.Circuits {
			o.ObserveInt64(open, flag(c.Open), with("dependency", c.Dependency, "pool", c.Pool))
		}
		return nil
	}, queued, flows, slow, excess, open)
	b.errs = append(b.errs, err)
}
