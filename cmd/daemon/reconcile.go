package daemon

import (
	"time"

	"github.com/hap-worker/hap-worker/worker/audit"
)

// reconciler returns the auditor of Redis, which uses worker.reconcile of the present configuration.
func (d *daemon) reconciler() *audit.Auditor {
	p := &d.parts
	return &audit.Auditor{
		Audit: &audit.Audit{
			Records: p.counters, Repairer: p.counters, Ledger: p.ledger, Inventory: p.gardener, Reader: p.gardener, Waiting: p.room.Addresses,
		},
		Settings: func() (time.Duration, bool) {
			now := d.reconcile.Load()
			return now.Interval, now.Repair
		},
		Observer: d.observer(),
	}
}
