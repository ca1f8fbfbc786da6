package telemetry

import (
	"context"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// settled are the labels of an event.
type settled struct {
	Type    string // provision, deprovision, release, resolve or unknown
	Outcome observe.Outcome
	Code    engine.Code // of a rejection, or Internal if the event is redelivered; otherwise ""
	Tenant  string      // "" without the tenant label
}

// decided are the labels of an assignment.
type decided struct {
	Pool   string
	Origin account.Origin
	Tenant string // "" without the tenant label
}

// The results of network rules that were not part of the answer to a request.
const (
	ruleSkipped   = "skipped"   // another rule already sets one of its paths
	ruleExtended  = "extended"  // the rule matched after the answer, and was applied
	ruleExhausted = "exhausted" // the rule matched after the answer, and no range was free
)

// Observer returns the observer that counts facts. It is cheap enough for every event.
func (m *Metrics) Observer() observe.Observer {
	return observe.Observer{
		OnEvent: m.event, OnDecision: m.decision, OnClaim: m.claim,
		OnAssigned: func(ctx context.Context, a observe.Assigned) { m.toAssign.record(ctx, a.Pool, a.Took) },
		OnWaiting:  m.wait,
		OnRebuild: func(_ context.Context, r observe.Rebuild) {
			if r.Err == nil {
				m.RedisBuilt(true)
			}
		},
		OnDrift:   m.audited,
		OnSkipped: func(ctx context.Context, s observe.Skipped) { m.networkRule(ctx, s.Skipped.Rule, ruleSkipped) },
		OnExtended: func(ctx context.Context, e observe.Extended) {
			if e.Err != nil {
				m.networkRule(ctx, e.Rule, ruleExhausted)
				return
			}
			m.networkRule(ctx, e.Rule, ruleExtended)
		},
		OnNoted: m.noted,
		OnRefresh: func(_ context.Context, r observe.Refresh) {
			conflicts := len(r.Conflicts)
			m.network.conflicts.Store(&conflicts)
		},
		OnUnserved:  func(_ context.Context, u observe.Unserved) { m.network.unserved.Store(&u.Clusters) },
		OnFence:     m.fence.looked,
		OnClock:     m.clocks.measured,
		OnRetention: func(ctx context.Context, r observe.Retention) { m.purged.Add(ctx, int64(r.Purged)) },
	}
}

func (m *Metrics) event(ctx context.Context, e observe.Event) {
	m.events.add(ctx, settled{Type: e.Type, Outcome: e.Outcome, Code: e.Code, Tenant: m.tenant(e.Tenant)}, 1)
	m.eventSeconds.record(ctx, [2]string{e.Type, string(e.Outcome)}, e.Duration)
	if e.Outcome == observe.DeadLetter {
		m.dead.add(ctx, [2]string{e.Type, string(e.Code)}, 1)
	}
	if e.Outcome == observe.Lost {
		m.lost.add(ctx, [2]string{e.Type, string(e.Code)}, 1)
	}
}

func (m *Metrics) decision(ctx context.Context, d observe.Decision) {
	if d.Decision.Outcome == account.Assigned && !d.Decision.Repeated {
		m.decisions.add(ctx, decided{Pool: d.Pool, Origin: d.Decision.Origin, Tenant: m.tenant(d.Tenant)}, 1)
	}
}

// claim counts a claim. A revoked claim has no duration, because the worker did not try to write its label.
func (m *Metrics) claim(ctx context.Context, c observe.Claim) {
	m.claims.add(ctx, c.Result, 1)
	if c.Result != observe.ClaimRevoked {
		m.claimSeconds.Record(ctx, c.Duration.Seconds())
	}
}

func (m *Metrics) networkRule(ctx context.Context, rule, result string) {
	m.networkRules.add(ctx, [2]string{rule, result}, 1)
}

// noted counts ClusterConfigs and annotations that were written or removed, those that were left
// because they have another owner, and failed attempts.
func (m *Metrics) noted(ctx context.Context, n observe.Noted) {
	m.network.configs.add(ctx, "written", int64(n.Written))
	m.network.configs.add(ctx, "removed", int64(n.Removed))
	m.network.configs.add(ctx, "taken", int64(len(n.Taken)))
	if n.Err != nil {
		m.network.configs.add(ctx, "failed", 1)
	}
}

// tenant returns the value of the tenant label: a copy of the tenant, so that the whole message is
// not kept in memory, or "" without the label.
func (m *Metrics) tenant(name string) string {
	if !m.tenants {
		return ""
	}
	return strings.Clone(name)
}
