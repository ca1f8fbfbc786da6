package daemon

import (
	"time"

	"github.com/hap-worker/hap-worker/worker"
)

// reconciler audits Redis as the configuration in effect asks for.
func (d *daemon) reconciler() *worker.Reconcile {
	p := &d.parts
	return &worker.Reconcile{
		Audit: &worker.Audit{
			Book: p.counters, Mender: p.counters, Archive: p.ledger, Census: p.gardener, Reader: p.gardener, Room: p.room,
		},
		Settings: func() (time.Duration, bool) {
			now := d.reconcile.Load()
			return now.Interval, now.Repair
		},
		Listener: d.listener(),
	}
}
