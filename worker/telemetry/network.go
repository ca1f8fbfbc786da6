package telemetry

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// NetworkRoom says how much of the network ranges is free. The zero value means that it is unknown.
type NetworkRoom struct {
	Parents    []ParentRoom
	Injections []InjectionRoom
}

// ParentRoom counts the addresses of a parent range.
type ParentRoom struct {
	Parent     string
	Free, Used int64
}

// InjectionRoom counts the free blocks of an injection's size in its parent ranges.
type InjectionRoom struct {
	Rule, Injection string
	Blocks          int64
}

// networkMetrics are the instruments of network ranges, except hap_network_rules_total.
type networkMetrics struct {
	room      atomic.Pointer[NetworkRoom]
	conflicts atomic.Pointer[int]
	unserved  atomic.Pointer[map[string]int]
	configs   *counter[string]
}

// NetworkRoom sets how much of the ranges is free.
func (m *Metrics) NetworkRoom(r NetworkRoom) { m.network.room.Store(&r) }

func (m *Metrics) observeNetwork(b *builder) {
	m.network.configs = newCounter(b.counter("hap_cluster_configs_total", "ClusterConfigs and annotations of network blocks."), maxSeries, func(result string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("result", result)}
	})
	for _, result := range []string{"written", "removed", "taken", "failed"} {
		m.network.configs.add(context.Background(), result, 0)
	}
	addresses := b.gauge("hap_network_addresses", "Addresses of a parent of network ranges, by state.")
	blocks := b.gauge("hap_network_free_blocks", "Blocks that an injection of a network rule could still allot.")
	conflicts := b.gauge("hap_network_conflicts", "Network blocks that are held twice, as the last comparison found.")
	unserved := b.gauge("hap_network_unserved_clusters", "Clusters that a network rule has come to match and has no room for.")
	_, err := b.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if n := m.network.conflicts.Load(); n != nil {
			o.ObserveInt64(conflicts, int64(*n))
		}
		if clusters := m.network.unserved.Load(); clusters != nil {
			for _, rule := range slices.Sorted(maps.Keys(*clusters))[:min(len(*clusters), maxSeries)] {
				o.ObserveInt64(unserved, int64((*clusters)[rule]), with("rule", rule))
			}
		}
		room := m.network.room.Load()
		if room == nil {
			return nil
		}
		for _, p := range room.Parents[:min(len(room.Parents), maxSeries/2)] {
			o.ObserveInt64(addresses, p.Free, with("parent", p.Parent, "state", "free"))
			o.ObserveInt64(addresses, p.Used, with("parent", p.Parent, "state", "used"))
		}
		for _, i := range room.Injections[:min(len(room.Injections), maxSeries)] {
			o.ObserveInt64(blocks, i.Blocks, with("rule", i.Rule, "injection", i.Injection))
		}
		return nil
	}, addresses, blocks, conflicts, unserved)
	b.errs = append(b.errs, err)
}
