package daemon

import (
	"context"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/retention"
)

// The adapters implement the interfaces of package retention.
var (
	_ retention.Ledger    = (*storage.Ledger)(nil)
	_ retention.Records   = (*counters.Store)(nil)
	_ retention.Blocks    = (*blocks.Ranges)(nil)
	_ retention.Inventory = (*gardener.Client)(nil)
)

// retention returns the purger, which forgets runtimes that were released nats.retention ago, by
// the clock of the stream that keeps their replies.
func (d *daemon) retention(w *worker.Worker) *retention.Purger {
	p := &d.parts
	r := &retention.Purger{
		Ledger: p.ledger, Records: p.counters, Gardener: p.gardener, Room: p.room, Rebuild: p.rebuild, Notes: p.rebuild.Notes,
		Keep: d.cfg.NATS.Retention, Settle: 2 * (d.cfg.Worker.Budget + d.cfg.Worker.AckWait), Observer: d.observer(),
		Now: w.StreamTime,
	}
	if p.ranges != nil {
		r.Blocks = p.ranges
	} else {
		r.Leftover = func(ctx context.Context, runtime string) error {
			_, err := blocks.New(p.counters).Release(ctx, runtime)
			return err
		}
	}
	if d.opts.Retention != nil {
		d.opts.Retention(r)
	}
	return r
}
