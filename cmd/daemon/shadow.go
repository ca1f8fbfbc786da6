package daemon

import (
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/ledger/shadows"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/reconcile"
	"github.com/hap-worker/hap-worker/worker/shadow"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// The adapters implement the interfaces of package shadow.
var (
	_ shadow.Ledger  = (*storage.Ledger)(nil)
	_ shadow.Room    = (*storage.WaitingRoom)(nil)
	_ shadow.Book    = (*shadows.Comparisons)(nil)
	_ shadow.Reality = (*gardener.Client)(nil)
	_ shadow.Records = (*counters.Store)(nil)
)

// shadowed reports whether the daemon is a shadow: it writes nothing to Gardener and answers no
// publisher.
func (d *daemon) shadowed() bool { return d.cfg.Worker.Mode == config.ModeShadow }

// shadowKeys is appended to the prefix of a shadow's keys in Redis. The keys of a worker begin
// with the prefix and a colon, so the two never mix.
const shadowKeys = "-shadow"

// separate sets the subjects, and for a shadow the intake, and returns the configuration of Redis. A shadow
// has separate subjects, streams and keys.
func (d *daemon) separate() (redis config.Redis, err error) {
	redis = d.cfg.Redis
	subjects, err := events.NewSubjects(d.cfg.NATS.Prefix)
	d.parts.subjects = subjects
	if err != nil || !d.shadowed() {
		return redis, err
	}
	d.parts.intake = shadows.NewIntake(d.parts.js, subjects, func(text string) { d.log.Info(text) }, func(err error) {
		d.log.Warn("could not copy the broker's events to the shadow; trying again", "error", err)
	})
	redis.Prefix += shadowKeys
	d.parts.subjects = subjects.Shadow()
	return redis, nil
}

// asShadow changes the options for a shadow, so that its worker writes nothing to Gardener and sends no
// copies of replies. It logs retries that wait for a rebuild as debug messages.
func (d *daemon) asShadow(o worker.Options) worker.Options {
	if !d.shadowed() {
		return o
	}
	o.Gardener, o.Copies = shadow.Gardener{Gardener: o.Gardener}, shadow.NoCopies{}
	tell := o.Observer.OnRetry
	o.Observer.OnRetry = func(ctx context.Context, i observe.Retry) {
		if errors.Is(i.Err, account.ErrNotBuilt) || errors.Is(i.Err, account.ErrRebuilt) {
			d.log.DebugContext(ctx, "an attempt failed", "retry", i) // Redis is often rebuilt to follow the broker
			return
		}
		tell(ctx, i)
	}
	return o
}

// firstBuild has Redis built. For a shadow it sets p.follow, and builds Redis anew in any case: the broker
// may have changed accounts since the last run.
func (d *daemon) firstBuild(ctx context.Context) error {
	p := &d.parts
	if !d.shadowed() {
		return p.rebuild.Ensure(ctx)
	}
	counted, err := d.comparisons(ctx)
	if err != nil {
		return err
	}
	// A shadow rebuilds Redis all the time, so a rebuild is only worth a debug message.
	tell := p.rebuild.Observer.OnRebuild
	p.rebuild.Observer.OnRebuild = func(ctx context.Context, i observe.Rebuild) {
		if i.Err != nil && !i.Elsewhere {
			tell(ctx, i)
			return
		}
		d.log.DebugContext(ctx, "rebuilt", "rebuild", i)
	}
	settings := d.cfg.Worker.Shadow
	follow := &shadow.Follow{
		Ledger: p.ledger, Book: shadows.NewComparisons(p.js, p.subjects), Room: p.room, Reality: p.gardener,
		Records: p.counters, Rebuild: p.rebuild, Subjects: p.subjects,
		Interval: settings.Interval, Patience: settings.Patience,
		OnCompared: func(ctx context.Context, c shadows.Comparison) {
			counted.Compared(ctx, string(c.Result))
			level := d.log.InfoContext
			if c.Result.Differs() {
				level = d.log.WarnContext
			}
			level(ctx, "compared", "result", c.Result, "runtime", c.Reply.RuntimeID, "request", c.Reply.RequestID, "what", c.Message)
		},
		OnFailed: func(ctx context.Context, err error) {
			d.log.WarnContext(ctx, "could not compare a decision with the broker's; trying again", "error", err)
		},
		OnFollowed: func() {
			if w := p.worker.Load(); w != nil {
				w.Wake()
			}
		},
	}
	p.follow.Store(follow)
	return follow.Refresh(ctx)
}

func (d *daemon) comparisons(ctx context.Context) (*telemetry.Comparisons, error) {
	var results []string
	for _, r := range shadows.ComparisonResults() {
		results = append(results, string(r))
	}
	return d.tel.Comparisons(ctx, results...)
}

// goOn starts the tasks that run beside the worker until background ends: the sweep, the audit, the retention
// and, with network ranges, their Reconciler. A shadow instead copies events and compares decisions.
func (d *daemon) goOn(background context.Context, w *worker.Worker) {
	p := &d.parts
	if d.shadowed() {
		d.running.Go(func() { p.intake.Run(background) })
		d.running.Go(func() { p.follow.Load().Run(background, w.StreamTime) })
		return
	}
	sweep := &reconcile.Labels{
		Worker: w, Follower: p.counters, Cache: p.gardener, Bindings: p.gardener, Rebuild: p.rebuild, Observer: d.observer(),
		Budget: d.cfg.Worker.Budget,
	}
	p.sweep.Store(sweep)
	d.running.Go(func() { sweep.Run(background) })
	d.running.Go(func() { d.reconciler().Run(background) })
	d.running.Go(func() { d.retention(w).Run(background) })
	if p.extend != nil {
		d.running.Go(func() { p.extend.Run(background) })
	}
}
