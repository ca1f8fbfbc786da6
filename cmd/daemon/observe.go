package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// observer tells log, metrics, the page and tests of what the worker does.
func (d *daemon) observer() observe.Observer {
	o := observe.Join(d.tel.Metrics.Observer(), telemetry.LogObserver(d.log), observe.Observer{OnEvent: d.recent.OnEvent})
	if step := d.opts.OnStep; step != nil {
		o.OnStep = func(_ context.Context, s observe.Step) { step(s) }
	}
	return o
}

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
	var counts atomic.Pointer[records]
	d.tel.Metrics.Observe(func(context.Context) (telemetry.Snapshot, bool) {
		known := counts.Load()
		if known == nil {
			return telemetry.Snapshot{}, false
		}
		s := telemetry.Snapshot{Bindings: d.bindings(*known)}
		s.RulesWithoutBinding = d.rules.Get().Rules().Unserved(d.parts.gardener.Pools())
		return s, true
	})
	loop.Run(ctx, loop.Options{
		Every: countsEvery, Start: loop.AtOnce,
		Failed: func(err error, _ time.Duration) {
			d.log.Warn("the counts of the pools cannot be read for the metrics", "error", err)
		},
	}, func(ctx context.Context) error {
		_ = d.redisBuilt(ctx) // sets its gauge, also where no probe asks whether the worker is ready
		known, err := d.records(ctx)
		if ctx.Err() == nil {
			d.tel.Metrics.Look(time.Now(), d.bindings(known))
			counts.Store(&known)
		}
		return err
	})
}

// records are those of Redis, by pool and binding. A pool that could not be read is
// not among them.
type records map[string]map[string]account.Record

// of returns the record of a binding in its pool, the zero Record for an absent one,
// and nil where the pool could not be read.
func (r records) of(b engine.Binding) *account.Record {
	pool, read := r[b.Pool().Name()]
	if !read {
		return nil
	}
	rec := pool[b.Name]
	return &rec
}

// bindings are those of the cache with what Redis had of them.
func (d *daemon) bindings(known records) []telemetry.BindingFacts {
	var facts []telemetry.BindingFacts
	for b := range d.parts.gardener.All() {
		facts = append(facts, telemetry.BindingFacts{Binding: b, Record: known.of(b)})
	}
	return facts
}

// records reads those of all pools that Gardener has. What is not built is left out;
// an error of Redis ends it, and what was read before is returned too.
func (d *daemon) records(ctx context.Context) (records, error) {
	known := records{}
	for _, pool := range d.parts.gardener.Pools() {
		found := map[string]account.Record{}
		for b, err := range d.parts.counters.Bindings(ctx, pool.Name()) {
			if errors.Is(err, account.ErrNotBuilt) {
				found = nil
				break
			}
			if err != nil {
				return known, err
			}
			found[b.Binding] = b.Record
		}
		if found != nil {
			known[pool.Name()] = found
		}
	}
	return known, nil
}
