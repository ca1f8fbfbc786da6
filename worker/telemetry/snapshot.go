package telemetry

import (
	"context"
	"iter"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// Snapshot is the state of the pools at the moment of a scrape.
type Snapshot struct {
	Bindings iter.Seq[BindingFacts]
	// RulesWithoutBinding has the text of each rule whose pool has no bindings.
	RulesWithoutBinding []string
}

// BindingFacts is one binding with its data from Gardener and its record from Redis. In a sequence of them, Record is
// valid only until the next one.
type BindingFacts struct {
	Binding engine.Binding
	Record  *account.Record // the argument of account.Standing: nil if it could not be read
}

func (f *BindingFacts) standing() account.State { return account.Standing(&f.Binding, f.Record) }

// state returns the value of the label state of hap_pool_bindings. This metric is older than the
// standing of an account: unless an account is dirty, internal and shared override its standing there.
func (f *BindingFacts) state() account.State {
	switch word, b := f.standing(), &f.Binding; {
	case word == account.Dirty:
		return word
	case b.Internal:
		return account.Internal
	case b.Pool().Shared:
		return account.Common
	default:
		return word
	}
}

// Observe sets the source of the gauges of pools and bindings. Each scrape calls the function,
// so it must only read caches. If it returns false, the state is unknown, and the gauges are
// absent.
func (m *Metrics) Observe(snapshot func(context.Context) (Snapshot, bool)) {
	m.snapshot.Store(&snapshot)
}

// gauges are the instruments that are read when metrics are scraped.
type gauges struct {
	perTenant, shoots, available, pools, standings, rules, inflight, consumer, built metric.Int64ObservableGauge

	exhaustion metric.Float64ObservableGauge

	tenants bool // perTenant is shown
}

func (m *Metrics) observe(b *builder) {
	g := gauges{
		perTenant: b.gauge("keb_credentials_bindings_per_ga", "Bindings that carry a global account's name and are not dirty."),
		shoots:    b.gauge("keb_shoots_per_credentials_binding", "Clusters on a binding."),
		available: b.gauge("keb_available_credentials_bindings", "Bindings of a pool that a global account could claim now; of a shared pool, those that take clusters now."),
		pools:     b.gauge("hap_pool_bindings", "Bindings of a pool, by state."),
		standings: b.gauge("hap_pool_accounts", "Accounts of a pool, by standing: the state that page and hapctl show, too."),
		rules:     b.gauge("hap_rule_without_binding", "1 for every rule whose pool has no binding at all."),
		inflight:  b.gauge("hap_inflight_events", "Events being handled now."),
		consumer:  b.gauge("hap_consumer_up", "1 while the worker takes events, 0 while it starts or stops or its consumer is gone or delivers nothing."),
		built:     b.gauge("hap_redis_built", "1 while Redis holds the pools, 0 while it does not answer or they must be rebuilt."),

		tenants:    m.perTenant,
		exhaustion: b.seconds("hap_pool_exhaustion_seconds", "Time until no binding of the pool can be claimed, at the recent rate of claims."),
	}
	_, err := b.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		if built := m.built.Load(); built != nil {
			o.ObserveInt64(g.built, flag(*built))
		}
		if count := m.inflight.Load(); count != nil {
			o.ObserveInt64(g.inflight, int64((*count)()))
		}
		if check := m.consuming.Load(); check != nil {
			o.ObserveInt64(g.consumer, flag((*check)() == nil))
		}
		if source := m.snapshot.Load(); source != nil {
			if snapshot, known := (*source)(ctx); known {
				g.report(o, snapshot)
				m.forecast.each(func(pool string, seconds float64) { o.ObserveFloat64(g.exhaustion, seconds, with("pool", pool)) })
			}
		}
		return nil
	}, g.perTenant, g.shoots, g.available, g.pools, g.standings, g.rules, g.inflight, g.consumer, g.built, g.exhaustion)
	b.errs = append(b.errs, err)
}

// flag is the value of a gauge that is 1 or 0.
func flag(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// owned identifies the bindings of a pool that are labelled with a tenant.
type owned struct {
	tenant string
	pool   engine.Pool
}

// poolLabels returns the labels of a pool. They differ for pools of one hyperscaler type, so a
// pool without free accounts is visible beside a pool that has some.
func poolLabels(p engine.Pool) []string {
	return []string{
		"hyperscaler_type", p.HyperscalerType, "pool", p.Name(),
		"eu_access", strconv.FormatBool(p.EUAccess), "shared", strconv.FormatBool(p.Shared),
	}
}

// report sets the gauges. If the state of one account of a pool is unknown, it omits the pool's
// hap_pool_bindings and keb_available_credentials_bindings: a missing count is better than one that
// is too low.
func (g *gauges) report(o metric.Observer, s Snapshot) {
	pools, standings := map[[2]string]int64{}, map[[2]string]int64{}
	perTenant, available := map[owned]int64{}, map[engine.Pool]int64{}
	unread := map[string]bool{}
	for f := range s.Bindings {
		kind, pool, word := f.Binding.HyperscalerType, f.Binding.Pool(), f.standing()
		if g.tenants && f.Binding.Tenant != "" && !f.Binding.Dirty {
			perTenant[owned{f.Binding.Tenant, pool}]++
		}
		standings[[2]string{pool.Name(), string(word)}]++
		if !pool.Shared {
			pools[[2]string{pool.Name(), string(account.Free)}] += 0 // also report 0 free accounts
		}
		pools[[2]string{pool.Name(), string(f.state())}]++
		available[pool] += 0 // also report 0 for a pool without free accounts
		switch word {
		case account.Unknown:
			unread[pool.Name()] = true
		case account.Free, account.Common:
			available[pool]++
		}
		if f.Record != nil {
			o.ObserveInt64(g.shoots, int64(f.Record.Count), with("credentials_binding", f.Binding.Name, "hyperscaler_type", kind))
		}
	}
	for key, n := range perTenant {
		o.ObserveInt64(g.perTenant, n, with(append(poolLabels(key.pool), "global_account_id", key.tenant)...))
	}
	for key, n := range standings {
		o.ObserveInt64(g.standings, n, with("pool", key[0], "standing", key[1]))
	}
	for key, n := range pools {
		if !unread[key[0]] {
			o.ObserveInt64(g.pools, n, with("pool", key[0], "state", key[1]))
		}
	}
	for pool, n := range available {
		if !unread[pool.Name()] {
			o.ObserveInt64(g.available, n, with(poolLabels(pool)...))
		}
	}
	for _, text := range s.RulesWithoutBinding {
		o.ObserveInt64(g.rules, 1, with("rule", text))
	}
}

func with(namesAndValues ...string) metric.MeasurementOption {
	labels := make([]attribute.KeyValue, 0, len(namesAndValues)/2)
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		labels = append(labels, attribute.String(namesAndValues[i], namesAndValues[i+1]))
	}
	return metric.WithAttributeSet(attribute.NewSet(labels...))
}
