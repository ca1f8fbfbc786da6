package audit

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Auditor audits periodically and, if Settings says so, repairs the drifts that are safe to repair.
type Auditor struct {
	Audit *Audit
	// Settings returns the time between two audits, 0 for never, and whether to repair. It is
	// called again each minute of a pause, so that a change takes effect.
	Settings func() (every time.Duration, repair bool)
	Observer observe.Observer
}

// soon is the longest pause before the first audit, without its jitter. With a pause of a day, a worker that restarts
// daily would otherwise never audit.
const soon = 10 * time.Minute

// Run audits until ctx ends. Each pause is up to a tenth longer (jitter), so that workers do not all read at
// once.
func (r *Auditor) Run(ctx context.Context) {
	audited := false
	every := func() time.Duration {
		every, _ := r.Settings()
		if !audited {
			return min(every, soon)
		}
		return every
	}
	loop.Run(ctx, loop.Options{Changing: every, Jitter: 0.1}, func(ctx context.Context) error {
		_, repair := r.Settings()
		r.once(ctx, repair)
		audited = true
		return nil
	})
}

func (r *Auditor) once(ctx context.Context, repair bool) {
	begin := time.Now()
	info := observe.Drift{}
	found, err := r.Audit.Verify(ctx)
	info.Found, info.NotBuilt, info.Err = found.Drifts, found.NotBuilt, err
	if err == nil && repair {
		info.Changed, info.RepairErr = r.Audit.RepairAll(ctx, found.Drifts, false)
	}
	info.Duration = time.Since(begin)
	if ctx.Err() == nil && r.Observer.OnDrift != nil {
		r.Observer.OnDrift(ctx, info)
	}
}
