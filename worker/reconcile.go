package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Reconcile audits every now and then, and repairs what is safe.
type Reconcile struct {
	Audit *Audit
	// Settings gives the time between two audits, 0 for never, and whether to
	// repair. It is asked again while it is waited.
	Settings func() (every time.Duration, repair bool)
	Listener Listener
	Now      Clock // Defaults to time.Now.
}

// askAgain is how often a changed interval is looked for.
const askAgain = time.Minute

// Run audits until ctx ends. Each pause is longer by up to a tenth, so that workers
// do not all read at once.
func (r *Reconcile) Run(ctx context.Context) {
	if r.Now == nil {
		r.Now = time.Now
	}
	last, share := r.Now(), rand.Float64()/10
	for {
		every, repair := r.Settings()
		due := last.Add(every + time.Duration(share*float64(every)))
		wait := min(askAgain, due.Sub(r.Now()))
		if every == 0 {
			wait = askAgain
		}
		if wait > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			continue
		}
		r.once(ctx, repair)
		last, share = r.Now(), rand.Float64()/10
		if ctx.Err() != nil {
			return
		}
	}
}

func (r *Reconcile) once(ctx context.Context, repair bool) {
	begin := r.Now()
	info := DriftInfo{}
	found, err := r.Audit.Verify(ctx)
	info.Found, info.NotBuilt, info.Err = found.Drifts, found.NotBuilt, err
	if err == nil && repair {
		info.Changed, info.Err = r.Audit.RepairAll(ctx, found.Drifts, false)
	}
	info.Duration = r.Now().Sub(begin)
	if ctx.Err() == nil && r.Listener.OnDrift != nil {
		r.Listener.OnDrift(ctx, info)
	}
}

// DriftInfo is an audit that ended.
type DriftInfo struct {
	Found    []account.Drift
	Changed  []account.Drift // of those, the ones about which Redis was changed
	NotBuilt []string
	Duration time.Duration
	Err      error
}

// Left counts by kind what the audit found and did not mend; every kind is there.
func (i DriftInfo) Left() map[account.DriftKind]int {
	left := map[account.DriftKind]int{}
	for _, kind := range account.DriftKinds() {
		left[kind] = 0
	}
	for _, d := range i.Found {
		left[d.Kind]++
	}
	for _, d := range i.Changed {
		if d.Remedy() == account.Mended {
			left[d.Kind]--
		}
	}
	return left
}

// LogValue groups what a log line needs.
func (i DriftInfo) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Int("found", len(i.Found)), slog.Int("changed", len(i.Changed)), slog.Duration("duration", i.Duration),
	}
	for _, kind := range account.DriftKinds() {
		if n := i.Left()[kind]; n > 0 {
			attrs = append(attrs, slog.Int(string(kind), n))
		}
	}
	if i.Err != nil {
		attrs = append(attrs, slog.String("error", i.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}
