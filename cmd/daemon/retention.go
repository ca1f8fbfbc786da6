package daemon

import (
	"context"
	"time"

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
		Keep: d.cfg.NATS.Retention, Settle: d.settle(), Observer: d.observer(),
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

// settle is longer than a handler may work on an event.
func (d *daemon) settle() time.Duration { return 2 * (d.cfg.Worker.Budget + d.cfg.Worker.AckWait) }

// streamTime is the clock of the stream that keeps the replies.
func (d *daemon) streamTime() time.Time {
	if w := d.parts.worker.Load(); w != nil {
		return w.StreamTime()
	}
	return time.Now()
}
