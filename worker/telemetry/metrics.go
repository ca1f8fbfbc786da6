package telemetry

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// The bounds of histograms, in seconds.
var (
	eventBounds = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	// An assignment may wait for as long as hap.waiting.timeout, 10 minutes by default.
	assignBounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600}
	redisBounds  = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5}
)

// maxSeries bounds the label sets of one instrument, maxTenants those with a
// tenant. What comes beyond is counted with "other" in every label.
const (
	maxSeries  = 1000
	maxTenants = 20000
	other      = "other"
)

// ClaimResult is what became of a claim at Gardener.
type ClaimResult string

// The results of a claim.
const (
	ClaimOK          ClaimResult = "ok"
	ClaimConflict    ClaimResult = "conflict"    // somebody else was faster, 409
	ClaimUnknown     ClaimResult = "unknown"     // the reply was lost; the binding is read again
	ClaimUnavailable ClaimResult = "unavailable" // Gardener does not serve, 429 or 5xx
	ClaimRevoked     ClaimResult = "revoked"     // given up: the binding is another tenant's or dirty by now
)

// Event is an event that was settled.
type Event struct {
	Type    string      // provision, deprovision, release, resolve or unknown
	Outcome string      // how it was settled
	Code    engine.Code // of a rejection, else ""
	Tenant  string      // read only with the tenant label
}

// Decision is an assignment that was made.
type Decision struct {
	Pool   string
	Origin string // how the binding was found; see account.Origin
	Tenant string // read only with the tenant label
}

// Metrics are the instruments of a worker. All methods are safe for concurrent
// use and cheap enough for every event.
type Metrics struct {
	events       *counter[Event]
	eventSeconds *histogram[[2]string]
	decisions    *counter[Decision]
	claims       *counter[ClaimResult]
	claimSeconds metric.Float64Histogram
	toAssign     *histogram[string]
	redisSeconds *histogram[string]
	reloads      metric.Int64Counter
	failures     metric.Int64Counter
	dead         *counter[[2]string]
	networkRules *counter[[2]string]
	purged       metric.Int64Counter
	inflight     atomic.Pointer[func() int]
	built        atomic.Int64
	snapshot     atomic.Pointer[func(context.Context) (Snapshot, bool)]
	drift        atomic.Pointer[map[account.DriftKind]int]
	network      networkMetrics
	waiting      atomic.Pointer[waitingRoom]
	forecast     forecast
	tenants      bool
	now          func() time.Time
}

func newMetrics(meter metric.Meter, tenants bool) (*Metrics, error) {
	b := builder{meter: meter}
	m := &Metrics{tenants: tenants, now: time.Now}
	series := maxSeries
	if tenants {
		series = maxTenants
	}
	m.events = newCounter(b.counter("hap_events_total", "Events settled."), series, m.eventLabels)
	m.eventSeconds = newHistogram(b.histogram("hap_event_duration_seconds", "From the delivery of an event until it is settled.", eventBounds), pair("type", "outcome"))
	m.decisions = newCounter(b.counter("hap_decisions_total", "Assignments made."), series, m.decisionLabels)
	m.claims = newCounter(b.counter("hap_claims_total", "Claims of bindings at Gardener."), maxSeries, func(r ClaimResult) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("result", string(r))}
	})
	m.claimSeconds = b.histogram("hap_claim_duration_seconds", "From reading a binding until Gardener has answered its claim.", eventBounds)
	m.toAssign = newHistogram(b.histogram("hap_time_to_assign_seconds", "From when the stream had a request until its assignment was stored, with the time that it waited.", assignBounds), func(pool string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("pool", pool)}
	})
	m.redisSeconds = newHistogram(b.histogram("hap_redis_duration_seconds", "Calls of Redis.", redisBounds), func(op string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("op", op)}
	})
	m.reloads = b.counter("hap_config_reloads_total", "Changed configurations taken over.")
	m.failures = b.counter("hap_config_reload_failures_total", "Changed configurations refused.")
	m.dead = newCounter(b.counter("hap_dead_letters_total", "Events put into the dead-letter stream."), maxSeries, pair("type", "code"))
	m.networkRules = newCounter(b.counter("hap_network_rules_total", "Network rules that were not applied with the answer to a request."), maxSeries, pair("rule", "result"))
	m.purged = b.counter("hap_ledger_purged_total", "Runtimes that were released long ago and whose replies were deleted.")
	m.observe(&b)
	m.observeDrift(&b)
	m.observeNetwork(&b)
	m.observeWaiting(&b)
	m.begin()
	return m, errors.Join(b.errs...)
}

// begin makes the counters that alerts look at visible before their first event.
func (m *Metrics) begin() {
	ctx := context.Background()
	for _, result := range []ClaimResult{ClaimOK, ClaimConflict, ClaimUnknown, ClaimUnavailable, ClaimRevoked} {
		m.claims.add(ctx, result, 0)
	}
	for _, kind := range []string{"provision", "deprovision", "release", "resolve", "unknown"} {
		m.dead.add(ctx, [2]string{kind, string(engine.CodeInvalidEvent)}, 0)
	}
	for _, code := range []engine.Code{engine.CodeNoMatchingRule, engine.CodeUnknownProvider, engine.CodeNoImplementation} {
		m.dead.add(ctx, [2]string{"provision", string(code)}, 0)
	}
	m.dead.add(ctx, [2]string{"resolve", string(engine.CodeNoImplementation)}, 0)
	if !m.tenants { // which are not known before they come
		for _, code := range []engine.Code{engine.CodePoolExhausted, engine.CodeNetworkExhausted} {
			m.events.add(ctx, Event{Type: "provision", Outcome: "ack", Code: code}, 0)
			m.events.add(ctx, Event{Type: "provision", Outcome: "served", Code: code}, 0)
		}
	}
	m.reloads.Add(ctx, 0)
	m.failures.Add(ctx, 0)
	m.purged.Add(ctx, 0)
}

// Event counts an event that was settled, took after its delivery.
func (m *Metrics) Event(ctx context.Context, e Event, took time.Duration) {
	e.Tenant = m.tenant(e.Tenant)
	m.events.add(ctx, e, 1)
	m.eventSeconds.record(ctx, [2]string{e.Type, e.Outcome}, took)
}

// Decision counts an assignment.
func (m *Metrics) Decision(ctx context.Context, d Decision) {
	d.Tenant = m.tenant(d.Tenant)
	m.decisions.add(ctx, d, 1)
}

// tenant is what is kept of a tenant's name: nothing without the label, and never the
// message that it is a part of.
func (m *Metrics) tenant(name string) string {
	if !m.tenants {
		return ""
	}
	return strings.Clone(name)
}

// Claim counts a claim, which Gardener answered took after the binding was read.
func (m *Metrics) Claim(ctx context.Context, result ClaimResult, took time.Duration) {
	m.claims.add(ctx, result, 1)
	m.claimSeconds.Record(ctx, took.Seconds())
}

// Revoked counts a claim that was given up before its label was written.
func (m *Metrics) Revoked(ctx context.Context) { m.claims.add(ctx, ClaimRevoked, 1) }

// Assigned records how long a request took to get its binding.
func (m *Metrics) Assigned(ctx context.Context, pool string, took time.Duration) {
	m.toAssign.record(ctx, pool, took)
}

// Look takes the bindings as they are now, from time to time, for the forecast of
// when pools run dry.
func (m *Metrics) Look(now time.Time, bindings []BindingFacts) { m.forecast.look(now, bindings) }

// Redis records a call of Redis; op is the method's name, one of a few.
func (m *Metrics) Redis(ctx context.Context, op string, took time.Duration) {
	m.redisSeconds.record(ctx, op, took)
}

// Reload counts a changed configuration: taken over where err is nil, else refused.
func (m *Metrics) Reload(ctx context.Context, err error) {
	if err != nil {
		m.failures.Add(ctx, 1)
		return
	}
	m.reloads.Add(ctx, 1)
}

// DeadLetter counts an event of the type that went to the dead-letter stream.
func (m *Metrics) DeadLetter(ctx context.Context, eventType string, code engine.Code) {
	m.dead.add(ctx, [2]string{eventType, string(code)}, 1)
}

// RuleResult is what became of a network rule that matches a cluster.
type RuleResult string

// The results of network rules that are not part of the answer to a request.
const (
	RuleSkipped   RuleResult = "skipped"   // another rule has a path of it
	RuleExtended  RuleResult = "extended"  // it matched after the answer, and was applied
	RuleExhausted RuleResult = "exhausted" // it matched after the answer, and there is no room
)

// NetworkRule counts a network rule, by its id.
func (m *Metrics) NetworkRule(ctx context.Context, rule string, result RuleResult) {
	m.networkRules.add(ctx, [2]string{rule, string(result)}, 1)
}

// Purged counts runtimes whose replies were deleted from the ledger.
func (m *Metrics) Purged(ctx context.Context, runtimes int) { m.purged.Add(ctx, int64(runtimes)) }

// InFlight registers what gives the number of events that are being handled.
func (m *Metrics) InFlight(count func() int) { m.inflight.Store(&count) }

// RedisBuilt says whether Redis holds the pools, or they must be rebuilt first.
func (m *Metrics) RedisBuilt(built bool) {
	if built {
		m.built.Store(1)
		return
	}
	m.built.Store(0)
}

func (m *Metrics) eventLabels(e Event) []attribute.KeyValue {
	return m.withTenant(e.Tenant,
		attribute.String("type", e.Type), attribute.String("outcome", e.Outcome), attribute.String("code", string(e.Code)))
}

func (m *Metrics) decisionLabels(d Decision) []attribute.KeyValue {
	return m.withTenant(d.Tenant, attribute.String("pool", d.Pool), attribute.String("origin", d.Origin))
}

func (m *Metrics) withTenant(tenant string, labels ...attribute.KeyValue) []attribute.KeyValue {
	if m.tenants {
		labels = append(labels, attribute.String("global_account_id", tenant))
	}
	return labels
}

func pair(first, second string) func([2]string) []attribute.KeyValue {
	return func(values [2]string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String(first, values[0]), attribute.String(second, values[1])}
	}
}
