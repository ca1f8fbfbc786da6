package daemon

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// warnUnserved names the rules whose requests can only be refused.
func (d *daemon) warnUnserved() {
	for _, text := range d.rules.Get().Rules().Unserved(d.parts.gardener.Pools()) {
		d.log.Warn("no binding at all is labelled for this rule: its requests will find an empty pool", "rule", text)
	}
}

// countsEvery is how old the counts of the gauges may be: reading them costs a
// scan of the pools, so a scrape does not do it.
const countsEvery = 15 * time.Second

// observe feeds the gauges of pools and bindings until ctx ends: labels from the
// cache at the moment of the scrape, counts from Redis as of a moment ago.
func (d *daemon) observe(ctx context.Context) {
	var counts atomic.Pointer[map[string]account.Record]
	d.tel.Metrics.Observe(func(context.Context) (telemetry.Snapshot, bool) {
		known := counts.Load()
		if known == nil {
			return telemetry.Snapshot{}, false
		}
		s := telemetry.Snapshot{Bindings: d.bindings(*known)}
		s.RulesWithoutBinding = d.rules.Get().Rules().Unserved(d.parts.gardener.Pools())
		return s, true
	})
	tick := time.NewTicker(countsEvery)
	defer tick.Stop()
	for {
		_ = d.redisBuilt(ctx) // sets its gauge, also where nobody asks whether the worker is ready
		if records, err := d.records(ctx); err == nil {
			d.tel.Metrics.Look(time.Now(), d.bindings(records))
			counts.Store(&records)
		} else if ctx.Err() == nil {
			counts.Store(nil)
			d.log.Warn("the counts of the pools cannot be read for the metrics", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// bindings are those of the cache with what Redis had of them.
func (d *daemon) bindings(records map[string]account.Record) []telemetry.BindingFacts {
	var facts []telemetry.BindingFacts
	for b := range d.parts.gardener.All() {
		r := records[b.Name]
		facts = append(facts, telemetry.BindingFacts{Binding: b, State: r.State, Clusters: r.Count})
	}
	return facts
}

// records are those of all bindings of all pools that Gardener has.
func (d *daemon) records(ctx context.Context) (map[string]account.Record, error) {
	out := map[string]account.Record{}
	for _, pool := range d.parts.gardener.Pools() {
		for b, err := range d.parts.counters.Bindings(ctx, pool.Name()) {
			if err != nil {
				return nil, err
			}
			out[b.Binding] = b.Record
		}
	}
	return out, nil
}
