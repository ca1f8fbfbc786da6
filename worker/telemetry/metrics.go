package telemetry

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/worker/notes"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// The bounds of histograms, in seconds.
var (
	eventBounds = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	// A request may wait for hap.waiting.timeout, 10 minutes by default, or until its deadline.
	assignBounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600}
	redisBounds  = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5}
)

// maxSeries limits the label sets of a counter or histogram, and maxTenants those with a tenant.
// Further measurements are counted with "other" in every label.
const (
	maxSeries  = 1000
	maxTenants = 20000
	other      = "other"
)

// Metrics are the instruments of a worker. All methods are safe for concurrent use.
type Metrics struct {
	events       *counter[settled]
	eventSeconds *histogram[[2]string]
	decisions    *counter[decided]
	claims       *counter[observe.ClaimResult]
	claimSeconds metric.Float64Histogram
	toAssign     *histogram[string]
	redisSeconds *histogram[string]
	reloads      reloads
	dead         *counter[[2]string]
	lost         *counter[[2]string]
	full         *counter[string]
	networkRules *counter[[2]string]
	purged       metric.Int64Counter
	foreign      *counter[string]
	notes        *counter[notes.Result]
	fence        fenceMetrics
	inflight     atomic.Pointer[func() int]
	consuming    atomic.Pointer[func() error]
	built        atomic.Pointer[bool]
	snapshot     atomic.Pointer[func(context.Context) (Snapshot, bool)]
	drift        atomic.Pointer[map[account.DriftKind]int]
	network      networkMetrics
	waiting      atomic.Pointer[waitingRoom]
	stocked      atomic.Pointer[map[string]bool] // pools that have accounts
	forecast     forecast
	tenants      bool
	queue        queueMetrics
	clocks       clocks
	perTenant    bool // show keb_credentials_bindings_per_ga
	now          func() time.Time
}

func newMetrics(meter metric.Meter, o Options) (*Metrics, error) {
	b := builder{meter: meter}
	m := &Metrics{tenants: o.TenantLabel, perTenant: o.TenantLabel || o.TenantMetrics, now: time.Now}
	series := maxSeries
	if o.TenantLabel {
		series = maxTenants
	}
	m.events = newCounter(b.counter("hap_events_total", "Deliveries whose handling has ended, and waiting requests that were served."), series, m.eventLabels)
	m.eventSeconds = newHistogram(b.histogram("hap_event_duration_seconds", "From when a worker begins to handle an event until it is settled, without its time in the queue; of a waiting request, the last attempt to serve it.", eventBounds), pair("type", "outcome"))
	m.decisions = newCounter(b.counter("hap_decisions_total", "Assignments made."), series, m.decisionLabels)
	m.claims = newCounter(b.counter("hap_claims_total", "Claims of bindings at Gardener."), maxSeries, func(r observe.ClaimResult) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("result", string(r))}
	})
	m.claimSeconds = b.histogram("hap_claim_duration_seconds", "Writing the label of a claim, with repeats, until Gardener has answered.", eventBounds)
	m.toAssign = newHistogram(b.histogram("hap_time_to_assign_seconds", "From when the stream had a request until its assignment was stored, with the time that it waited.", assignBounds), func(pool string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("pool", pool)}
	})
	m.redisSeconds = newHistogram(b.histogram("hap_redis_duration_seconds", "Calls of Redis.", redisBounds), func(op string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("op", op)}
	})
	m.dead = newCounter(b.counter("hap_dead_letters_total", "Events put into the dead-letter stream."), maxSeries, pair("type", "code"))
	m.lost = newCounter(b.counter("hap_dead_letters_lost_total", "Events ended without a dead letter, since the dead-letter stream had no room."), maxSeries, pair("type", "code"))
	m.full = newCounter(b.counter("hap_stream_full_total", "Messages of this worker that a stream had no room for."), maxSeries, func(stream string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("stream", stream)}
	})
	m.networkRules = newCounter(b.counter("hap_network_rules_total", "Network rules that were not applied with the answer to a request."), maxSeries, pair("rule", "result"))
	m.foreign = newCounter(b.counter("hap_foreign_messages_total", "Messages in a stream of the workers that cannot be read, and are passed over."), maxSeries, func(stream string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("stream", stream)}
	})
	m.notes = newCounter(b.counter("hap_kubernetes_events_total", "Events about bindings, by what became of them."), maxSeries, func(r notes.Result) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("result", string(r))}
	})
	m.purged = b.counter("hap_ledger_purged_total", "Runtimes that were released long ago and whose replies were deleted.")
	m.fence = newFenceMetrics(&b)
	b.panics()
	m.observe(&b)
	m.observeDrift(&b)
	m.observeNetwork(&b)
	m.observeWaiting(&b)
	m.observeQueue(&b)
	m.observeClocks(&b)
	m.reloads.observe(&b)
	observeBuild(&b, o.Build)
	m.begin(o.Shadow)
	return m, errors.Join(b.errs...)
}

// begin creates the series of the counters that alerts use, before their first event.
func (m *Metrics) begin(shadow bool) {
	ctx := context.Background()
	for _, result := range observe.ClaimResults() {
		m.claims.add(ctx, result, 0)
	}
	m.beginDead(ctx, events.UnknownType, engine.CodeInvalidEvent)
	for _, t := range events.Types() { // an event of any type whose answer cannot be stored
		m.beginDead(ctx, string(t.Type), engine.CodeInternal)
	}
	for _, info := range contract.Codes() {
		for _, kind := range info.Answers {
			m.beginCode(ctx, kind, info)
		}
	}
	for _, result := range notes.Results() {
		m.notes.add(ctx, result, 0)
	}
	subjects := events.Subjects{}
	if shadow {
		subjects = subjects.Shadow()
	}
	for _, stream := range []string{events.StreamReplies, events.StreamWaiting, events.StreamDead} {
		m.full.add(ctx, subjects.Stream(stream), 0)
	}
	m.purged.Add(ctx, 0)
	m.fence.begin(ctx)
}

// beginDead creates the series of dead letters with a type of event and an error code.
func (m *Metrics) beginDead(ctx context.Context, kind string, code engine.Code) {
	m.dead.add(ctx, [2]string{kind, string(code)}, 0)
	m.lost.add(ctx, [2]string{kind, string(code)}, 0)
}

// beginCode creates the series of an error code for one type of event that can be rejected with it.
func (m *Metrics) beginCode(ctx context.Context, kind string, info contract.CodeInfo) {
	if info.Fate == contract.FateDeadLettered {
		m.beginDead(ctx, kind, info.Code)
	}
	if info.AfterWaiting && !m.tenants { // a tenant is unknown before its first event
		m.events.add(ctx, settled{Type: kind, Outcome: observe.Ack, Code: info.Code}, 0)
		m.events.add(ctx, settled{Type: kind, Outcome: observe.Served, Code: info.Code}, 0)
	}
}

// Look updates the forecast of when pools run out. Call it regularly with the present bindings.
func (m *Metrics) Look(now time.Time, bindings iter.Seq[BindingFacts]) {
	stocked := m.forecast.look(now, bindings)
	m.stocked.Store(&stocked)
}

// Exhaustions calls visit for each pool with a forecast. seconds is the value of hap_pool_exhaustion_seconds:
// the time until no binding is free, +Inf if none was claimed lately.
func (m *Metrics) Exhaustions(visit func(pool string, seconds float64)) { m.forecast.each(visit) }

// Redis records a call of Redis. op is the name of the method; there are only a few.
func (m *Metrics) Redis(ctx context.Context, op string, took time.Duration) {
	m.redisSeconds.record(ctx, op, took)
}

// Foreign counts n messages of a stream that cannot be read. Call it with 0 to create the series
// before the first such message.
func (m *Metrics) Foreign(ctx context.Context, stream string, n int64) { m.foreign.add(ctx, stream, n) }

// StreamFull counts a message that a stream had no room for.
func (m *Metrics) StreamFull(stream string) { m.full.add(context.Background(), stream, 1) }

// Note counts an Event about a binding.
func (m *Metrics) Note(r notes.Result) { m.notes.add(context.Background(), r, 1) }

// InFlight registers a function that returns the number of events in progress.
func (m *Metrics) InFlight(count func() int) { m.inflight.Store(&count) }

// Consuming registers a function that returns nil while the worker takes events. It replaces an earlier one.
func (m *Metrics) Consuming(check func() error) { m.consuming.Store(&check) }

// RedisBuilt sets whether Redis has the pools or they must be rebuilt first. Before the first call the gauge is absent.
func (m *Metrics) RedisBuilt(built bool) { m.built.Store(&built) }

func (m *Metrics) eventLabels(e settled) []attribute.KeyValue {
	return m.withTenant(e.Tenant,
		attribute.String("type", e.Type), attribute.String("outcome", string(e.Outcome)), attribute.String("code", string(e.Code)))
}

func (m *Metrics) decisionLabels(d decided) []attribute.KeyValue {
	return m.withTenant(d.Tenant, attribute.String("pool", d.Pool), attribute.String("origin", string(d.Origin)))
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
