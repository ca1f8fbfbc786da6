package telemetry

import (
	"context"
	"log/slog"
	"sync"

	"github.com/hap-worker/hap-worker/worker/clock"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// mostLines limits how many drifts, or conflicts of network blocks, of one pass are logged separately.
const mostLines = 100

// LogObserver returns an observer that logs facts.
func LogObserver(log *slog.Logger) observe.Observer {
	l := logObserver{log: log, off: &sync.Map{}}
	return observe.Observer{
		OnEvent: l.event, OnClaim: l.claim, OnRebuild: l.rebuild, OnDrift: l.drift, OnExtended: l.extended,
		OnNoted: l.noted, OnRefresh: l.refresh, OnRetention: l.retention, OnCircuit: l.circuit, OnClock: l.clock,
		OnDecision: func(ctx context.Context, d observe.Decision) {
			if log.Enabled(ctx, slog.LevelDebug) {
				log.DebugContext(ctx, "decision", "decision", d)
			}
		},
		OnRetry: func(ctx context.Context, r observe.Retry) { log.WarnContext(ctx, "an attempt failed", "retry", r) },
		OnFollowed: func(ctx context.Context, f observe.Followed) {
			log.InfoContext(ctx, "updated Redis from a label", "followed", f)
		},
		OnSkipped: func(ctx context.Context, s observe.Skipped) {
			log.WarnContext(ctx, "skipped a network rule, because another rule already sets the path; the cluster keeps its ranges", "runtime", s.Runtime,
				"rule", s.Skipped.Rule, "path", s.Skipped.Path, "takenBy", s.Skipped.By)
		},
	}
}

type logObserver struct {
	log *slog.Logger
	off *sync.Map // stores whose clock differs by more than is tolerated
}

func (l logObserver) event(ctx context.Context, e observe.Event) {
	switch e.Outcome {
	case observe.Ack, observe.Served:
		if l.log.Enabled(ctx, slog.LevelInfo) { // the argument is copied to the heap even if it is not written
			l.log.InfoContext(ctx, "event", "event", e)
		}
	case observe.DeadLetter:
		l.log.WarnContext(ctx, "dead letter", "event", e)
	case observe.Lost:
		l.log.ErrorContext(ctx, "dead letter lost: HAP_DEAD has no room", "event", e)
	default:
		l.log.WarnContext(ctx, "event will be redelivered", "event", e)
	}
}

func (l logObserver) claim(ctx context.Context, c observe.Claim) {
	switch {
	case c.Result == observe.ClaimRevoked:
		l.log.WarnContext(ctx, "claim revoked", "claim", c)
	case c.Err != nil:
		l.log.WarnContext(ctx, "claim failed", "claim", c)
	default:
		l.log.InfoContext(ctx, "claimed", "claim", c)
	}
}

func (l logObserver) rebuild(ctx context.Context, r observe.Rebuild) {
	switch {
	case r.Err == nil:
		l.log.InfoContext(ctx, "rebuilt", "rebuild", r)
	case r.Elsewhere:
		l.log.InfoContext(ctx, "rebuilt a part; another worker rebuilds the rest", "rebuild", r)
	default:
		l.log.ErrorContext(ctx, "rebuild failed", "rebuild", r)
	}
}

func (l logObserver) circuit(ctx context.Context, c observe.Circuit) {
	if c.Open {
		l.log.WarnContext(ctx, "a dependency fails or hangs; it is now called once a second", "circuit", c)
		return
	}
	l.log.InfoContext(ctx, "a dependency answers again", "circuit", c)
}

// clock logs when a clock begins to differ by more than is tolerated, and when it no longer does.
func (l logObserver) clock(ctx context.Context, c observe.Clock) {
	differs := c.Offset.Abs() > clock.Tolerated
	_, differed := l.off.Load(c.Store)
	switch {
	case differs && !differed:
		l.off.Store(c.Store, true)
		l.log.WarnContext(ctx, "the clock of this machine differs from that of a server; have both follow the same time service. Deadlines and leases go by the server's", "server", c.Store, "ahead", c.Offset)
	case differed && !differs:
		l.off.Delete(c.Store)
		l.log.InfoContext(ctx, "the clock of this machine agrees with that of a server again", "server", c.Store, "ahead", c.Offset)
	}
}

func (l logObserver) drift(ctx context.Context, d observe.Drift) {
	if d.Err != nil {
		l.log.ErrorContext(ctx, "audit failed", "audit", d)
		return
	}
	for n, drift := range d.Found {
		if n == mostLines {
			l.log.WarnContext(ctx, "more drifts; hapctl counters verify lists all of them", "more", len(d.Found)-n)
			break
		}
		l.log.WarnContext(ctx, "drift", "kind", drift.Kind, "pool", drift.Pool, "binding", drift.Binding,
			"runtime", drift.Runtime, "what", drift.Message, "remedy", drift.Remedy())
	}
	if d.RepairErr != nil {
		l.log.ErrorContext(ctx, "repairs after an audit failed", "audit", d)
		return
	}
	l.log.InfoContext(ctx, "audited", "audit", d)
}

func (l logObserver) extended(ctx context.Context, e observe.Extended) {
	if e.Err != nil {
		l.log.WarnContext(ctx, "no free range for a cluster that a network rule now matches; trying again when blocks become free, and at the next refresh",
			"runtime", e.Runtime, "rule", e.Rule, "error", e.Err)
		return
	}
	l.log.InfoContext(ctx, "allotted ranges to a cluster that a network rule now matches", "runtime", e.Runtime, "rule", e.Rule, "request", e.Request)
}

func (l logObserver) noted(ctx context.Context, n observe.Noted) {
	switch {
	case n.Err != nil && n.Failed > 0:
		l.log.DebugContext(ctx, "ClusterConfigs still differ from the ledger", "clusterConfigs", n)
	case n.Err != nil:
		l.log.WarnContext(ctx, "ClusterConfigs differ from the ledger", "clusterConfigs", n)
	case len(n.Taken) > 0:
		l.log.WarnContext(ctx, "left objects unchanged that have the name of a ClusterConfig and another owner", "clusterConfigs", n)
	default:
		l.log.InfoContext(ctx, "ClusterConfigs", "clusterConfigs", n)
	}
}

// refresh logs a comparison of the network ranges, and the first mostLines conflicts that it found.
func (l logObserver) refresh(ctx context.Context, r observe.Refresh) {
	for n, conflict := range r.Conflicts {
		if n == mostLines {
			l.log.WarnContext(ctx, "more network blocks conflict", "more", len(r.Conflicts)-n)
			break
		}
		l.log.WarnContext(ctx, "network blocks conflict; none of them will be allotted again", "conflict", conflict)
	}
	l.log.InfoContext(ctx, "compared the network ranges", "refresh", r)
}

func (l logObserver) retention(ctx context.Context, r observe.Retention) {
	if r.Err != nil {
		l.log.WarnContext(ctx, "could not forget all released runtimes; the next pass continues", "retention", r)
		return
	}
	l.log.InfoContext(ctx, "forgot released runtimes", "retention", r)
}
