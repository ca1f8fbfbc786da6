package daemon

import (
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/filewatch"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// watchConfig applies each change of the configuration file until ctx ends, or logs why it cannot.
func (d *daemon) watchConfig(ctx context.Context) {
	if d.opts.ConfigPath == "" {
		return
	}
	err := config.Watch(ctx, d.opts.ConfigPath, d.cfg, func(next *config.Config) {
		decisions, err := next.Decisions()
		if err != nil {
			d.reloadFailed(ctx, err)
			return
		}
		if level, err := telemetry.ParseLevel(next.Telemetry.LogLevel); err == nil {
			d.level.Set(level)
		}
		d.rules.Set(decisions)
		if w := d.parts.worker.Load(); w != nil {
			w.Wake() // with the new limits and rules, waiting requests may find an account
		}
		d.reconcile.Store(&next.Worker.Reconcile)
		d.log.Info("applied the changed configuration", "rules", decisions.Rules().Len())
		d.tel.Metrics.Reload(ctx, telemetry.WorkerConfig, nil)
		for _, warning := range next.Warnings() {
			d.log.Warn(warning)
		}
		d.warnUnserved()
	}, func(err error) { d.reloadFailed(ctx, err) })
	if err != nil {
		d.log.Error("cannot watch the configuration file; restart the worker after changing it", "error", err)
	}
}

// reloadFailed tells of a changed file that is not applied. As everywhere, the line that says why comes before the count:
// who sees the count looks for the line.
func (d *daemon) reloadFailed(ctx context.Context, err error) {
	if needs, is := errors.AsType[*config.NeedsRestart](err); is && needs.Rest == nil {
		d.log.Warn("applied a part of the changed configuration; the rest needs a restart", "error", err)
		return
	}
	if _, late := errors.AsType[*filewatch.Error](err); late {
		d.log.Warn("changes of the configuration may be noticed late", "error", err)
		return
	}
	d.log.Error("rejected the changed configuration; the last valid one stays in use", "error", err)
	d.tel.Metrics.Reload(ctx, telemetry.WorkerConfig, err)
}
