package daemon

import (
	"context"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker"
)

// The adapters fit what retention asks for.
var (
	_ worker.RetainedLedger = (*events.Ledger)(nil)
	_ worker.Tombstones     = (*counters.Store)(nil)
	_ worker.Blocks         = (*counters.Ranges)(nil)
	_ worker.Lodgers        = (*gardener.Client)(nil)
)

// retention forgets what was released nats.retention ago.
func (d *daemon) retention() *worker.Retention {
	p := &d.parts
	r := &worker.Retention{
		Ledger: p.ledger, Records: p.counters, Shoots: p.gardener, Room: p.room, Rebuild: p.rebuild, Notes: p.rebuild.Notes,
		Keep: d.cfg.NATS.Retention, Settle: 2 * (d.cfg.Worker.Budget + d.cfg.Worker.AckWait), Listener: d.listener(),
	}
	if p.ranges != nil {
		r.Blocks = p.ranges
	}
	if d.opts.Retention != nil {
		d.opts.Retention(r)
	}
	return r
}

func (d *daemon) retained(ctx context.Context, i worker.RetentionInfo) {
	d.tel.Metrics.Purged(ctx, i.Purged)
	if i.Err != nil {
		d.log.WarnContext(ctx, "forgetting released runtimes failed, the next pass goes on", "retention", i)
		return
	}
	d.log.InfoContext(ctx, "released runtimes are forgotten", "retention", i)
}
