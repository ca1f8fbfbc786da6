package telemetry

import (
	"context"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/hap-worker/hap-worker/worker/observe"
)

// clocks stores the last measured offset of each store's clock.
type clocks struct {
	mu      sync.Mutex
	offsets map[string]time.Duration // by store: how far its clock is ahead of this machine's
}

func (c *clocks) measured(_ context.Context, m observe.Clock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offsets == nil {
		c.offsets = map[string]time.Duration{}
	}
	c.offsets[m.Store] = m.Offset
}

func (c *clocks) latest() map[string]time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.offsets)
}

func (m *Metrics) observeClocks(b *builder) {
	offset := b.seconds("hap_clock_offset_seconds", "How far the clock of a server, nats or redis, is ahead of this machine's.")
	_, err := b.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for store, ahead := range m.clocks.latest() {
			o.ObserveFloat64(offset, ahead.Seconds(), with("store", store))
		}
		return nil
	}, offset)
	b.errs = append(b.errs, err)
}
