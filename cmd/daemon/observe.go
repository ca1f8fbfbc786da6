package daemon

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// observer passes facts about the worker to the log, the metrics, the page, the Events about bindings and tests.
func (d *daemon) observer() observe.Observer {
	o := observe.Join(d.tel.Metrics.Observer(), telemetry.LogObserver(d.log), observe.Observer{OnEvent: d.recent.OnEvent})
	if notes := d.parts.notes; notes != nil {
		o = observe.Join(o, notes.Observer())
	}
	if step := d.opts.OnStep; step != nil {
		o.OnStep = func(_ context.Context, s observe.Step) { step(s) }
	}
	return o
}

// warnUnserved logs the rules whose pool has no binding.
func (d *daemon) warnUnserved() {
	for _, text := range d.rules.Get().Rules().Unserved(d.parts.gardener.Pools()) {
		d.log.Warn("no binding has the labels of this rule's pool: its requests will find an empty pool", "rule", text)
	}
}

// countsEvery is how often the counts in the gauges are read. That needs a scan of the pools, which is too slow for
// each scrape, and done less often where it takes long (loop.Pace).
const countsEvery = 15 * time.Second

// observe provides the gauges of pools and bindings until ctx ends. Labels come from the cache at the
// time of the scrape. Counts come from the last read of Redis; before the first one, the gauges are absent.
func (d *daemon) observe(ctx context.Context) {
	var counts atomic.Pointer[records]
	var pace loop.Pace
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
			d.log.Warn("could not read the counts of the pools for the metrics", "error", err)
		},
	}, func(ctx context.Context) error {
		_ = d.redisBuilt(ctx)             // sets its gauge even if no probe asks for readiness
		_, _ = d.parts.rebuild.Clock(ctx) // sets the gauge of the offset, which a rebuild alone would leave as it was
		if !pace.Due() {
			return nil
		}
		begin := time.Now()
		known, err := d.records(ctx, counts.Load())
		if ctx.Err() == nil {
			d.tel.Metrics.Look(time.Now(), d.bindings(known))
			counts.Store(&known)
		}
		if err == nil { // a read that failed is tried again soon
			pace.Rest(begin)
		}
		return err
	})
}

// records holds the records of Redis, by pool and binding. It omits pools that are not built or could not be
// read.
type records map[string]map[string]account.Record

// bindings iterates over the cached bindings with their records: the zero Record if there is none, and nil if known
// omits the pool.
func (d *daemon) bindings(known records) iter.Seq[telemetry.BindingFacts] {
	return func(yield func(telemetry.BindingFacts) bool) {
		var rec account.Record
		for b := range d.parts.gardener.All() {
			facts := telemetry.BindingFacts{Binding: b}
			if pool, read := known[b.Pool().Name()]; read {
				rec, facts.Record = pool[b.Name], &rec
			}
			if !yield(facts) {
				return
			}
		}
	}
}

// records reads the records of the pools that have bindings in Gardener. It skips pools that are not built.
// At an error of Redis it stops, and returns the error with the pools that it has read whole. last is the last
// result, if there is one: the new maps are made as large.
func (d *daemon) records(ctx context.Context, last *records) (records, error) {
	known := records{}
	if last == nil {
		last = &known
	}
	for _, pool := range d.parts.gardener.Pools() {
		found := make(map[string]account.Record, len((*last)[pool.Name()]))
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
