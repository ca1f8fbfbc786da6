package daemon

import (
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// watchConfig takes a changed file over, or says why not.
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
			w.Wake() // limits and rules say who finds what
		}
		d.reconcile.Store(&next.Worker.Reconcile)
		d.tel.Metrics.Reload(ctx, nil)
		d.log.Info("configuration taken over", "rules", decisions.Rules().Len())
		d.warnUnserved()
	}, func(err error) { d.reloadFailed(ctx, err) })
	if err != nil {
		d.log.Error("the configuration file cannot be watched; changes need a restart", "error", err)
	}
}

func (d *daemon) reloadFailed(ctx context.Context, err error) {
	if _, ok := errors.AsType[*config.NeedsRestart](err); ok {
		d.log.Warn("the changed configuration is taken over in part", "error", err)
		return
	}
	d.tel.Metrics.Reload(ctx, err)
	d.log.Error("the changed configuration is refused, the last one stays", "error", err)
}
