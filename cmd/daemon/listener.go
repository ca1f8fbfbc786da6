package daemon

import (
	"context"
	"errors"
	"log/slog"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// listener writes what the worker tells into log and metrics.
func (d *daemon) listener() worker.Listener {
	m, log := d.tel.Metrics, d.log
	l := worker.Listener{
		OnEvent: func(ctx context.Context, i worker.EventInfo) {
			d.recent.OnEvent(ctx, i)
			m.Event(ctx, telemetry.Event{Type: i.Type, Outcome: i.Outcome, Code: i.Code, Tenant: i.Tenant}, i.Duration)
			switch i.Outcome {
			case worker.OutcomeAck, worker.OutcomeServed:
				if log.Enabled(ctx, slog.LevelInfo) { // what is passed on is copied to the heap, written or not
					log.InfoContext(ctx, "event", "event", i)
				}
			case worker.OutcomeBury:
				m.DeadLetter(ctx, i.Type, i.Code)
				log.WarnContext(ctx, "dead letter", "event", i)
			default:
				log.WarnContext(ctx, "event comes again", "event", i)
			}
		},
		OnDecision: func(ctx context.Context, i worker.DecisionInfo) {
			if i.Decision.Outcome == account.Assigned && !i.Decision.Repeated {
				m.Decision(ctx, telemetry.Decision{Pool: i.Pool, Origin: string(i.Decision.Origin), Tenant: i.Tenant})
			}
			if log.Enabled(ctx, slog.LevelDebug) {
				log.DebugContext(ctx, "decision", "decision", i)
			}
		},
		OnClaim: func(ctx context.Context, i worker.ClaimInfo) {
			if i.Result == worker.ClaimRevoked {
				m.Revoked(ctx)
				log.WarnContext(ctx, "claim revoked", "claim", i)
				return
			}
			m.Claim(ctx, telemetry.ClaimResult(i.Result), i.Duration)
			if i.Err == nil {
				log.InfoContext(ctx, "claimed", "claim", i)
				return
			}
			log.WarnContext(ctx, "claim failed", "claim", i)
		},
		OnRetry: func(ctx context.Context, i worker.RetryInfo) {
			log.WarnContext(ctx, "trying again", "retry", i)
		},
		OnRebuild: d.rebuilt,
		OnFollowed: func(ctx context.Context, i worker.FollowedInfo) {
			log.InfoContext(ctx, "Redis follows a label", "followed", i)
		},
		OnDrift:   d.drifted,
		OnSkipped: d.ruleSkipped, OnExtended: d.ruleExtended,
		OnAssigned: func(ctx context.Context, i worker.AssignedInfo) { m.Assigned(ctx, i.Pool, i.Took) },
		OnWaiting:  d.waits, OnRetention: d.retained,
	}
	if step := d.opts.OnStep; step != nil {
		l.OnStep = func(_ context.Context, s worker.Step) { step(s) }
	}
	return l
}

func (d *daemon) waits(all []worker.WaitsInfo) {
	facts := make([]telemetry.WaitingFacts, len(all))
	for i, w := range all {
		facts[i] = telemetry.WaitingFacts{Pool: w.Pool, Reason: w.Reason, Since: w.Since}
	}
	d.tel.Metrics.Waiting(facts)
}

func (d *daemon) rebuilt(ctx context.Context, i worker.RebuildInfo) {
	switch {
	case i.Err == nil:
		d.tel.Metrics.RedisBuilt(true)
		d.log.InfoContext(ctx, "rebuilt", "rebuild", i)
	case errors.Is(i.Err, worker.ErrRebuildElsewhere):
		d.log.InfoContext(ctx, "rebuilt in part, the rest is another worker's", "rebuild", i)
	default:
		d.log.ErrorContext(ctx, "rebuild failed", "rebuild", i)
	}
}

func (d *daemon) drifted(ctx context.Context, i worker.DriftInfo) {
	if i.Err != nil {
		d.log.ErrorContext(ctx, "audit failed", "audit", i)
		return
	}
	d.tel.Metrics.Drift(i.Left())
	for _, drift := range i.Found {
		d.log.WarnContext(ctx, "drift", "kind", drift.Kind, "pool", drift.Pool, "binding", drift.Binding,
			"runtime", drift.Runtime, "what", drift.Message, "remedy", drift.Remedy())
	}
	d.log.InfoContext(ctx, "audited", "audit", i)
}

func (d *daemon) ruleSkipped(ctx context.Context, i worker.SkippedInfo) {
	d.tel.Metrics.NetworkRule(ctx, i.Skipped.Rule, telemetry.RuleSkipped)
	d.log.WarnContext(ctx, "a network rule is not applied: the cluster keeps what it has", "runtime", i.Runtime,
		"rule", i.Skipped.Rule, "path", i.Skipped.Path, "takenBy", i.Skipped.By)
}

func (d *daemon) ruleExtended(ctx context.Context, i worker.ExtendedInfo) {
	if i.Err != nil {
		d.tel.Metrics.NetworkRule(ctx, i.Rule, telemetry.RuleExhausted)
		d.log.WarnContext(ctx, "no room for a cluster that a network rule matches now: tried again at the next refresh",
			"runtime", i.Runtime, "rule", i.Rule, "error", i.Err)
		return
	}
	d.tel.Metrics.NetworkRule(ctx, i.Rule, telemetry.RuleExtended)
	d.log.InfoContext(ctx, "a network rule matches a cluster now", "runtime", i.Runtime, "rule", i.Rule, "request", i.Request)
}

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
