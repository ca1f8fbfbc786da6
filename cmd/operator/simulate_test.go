package operator

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// simulatedLimit is that of the tenants that may have several accounts.
const simulatedLimit = 2

func simulatedDecisions(t *testing.T) *config.Decisions {
	t.Helper()
	cfg, err := config.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.HAP.MultiHyperscalerAccount.AllowedGlobalAccounts = []string{"several-1", "several-2"}
	cfg.HAP.MultiHyperscalerAccount.Limits = map[string]int{config.DefaultLimit: simulatedLimit}
	decisions, err := cfg.Decisions()
	if err != nil {
		t.Fatal(err)
	}
	return decisions
}

// simulatedEvent is any event about a few runtimes, tenants and accounts.
func simulatedEvent(t *rapid.T) events.Event {
	runtime := fmt.Sprint("rt-", rapid.IntRange(1, 9).Draw(t, "runtime"))
	switch rapid.SampledFrom([]events.Type{events.TypeProvision, events.TypeProvision, events.TypeDeprovision, events.TypeRelease}).Draw(t, "type") {
	case events.TypeProvision:
		return events.Event{Type: events.TypeProvision, ID: "req-" + runtime, Provision: &events.Provision{
			RuntimeID: runtime, GlobalAccountID: rapid.SampledFrom([]string{"one-1", "one-2", "several-1", "several-2"}).Draw(t, "tenant"), Plan: "aws",
		}}
	case events.TypeDeprovision:
		return events.Event{Type: events.TypeDeprovision, Deprovision: &events.Deprovision{RuntimeID: runtime}}
	default:
		return events.Event{Type: events.TypeRelease, Release: &events.Release{Binding: fmt.Sprint("aws-", rapid.IntRange(1, 4).Draw(t, "binding"))}}
	}
}

// TestSimulateInvariants holds I2 WithinLimit, I3 OneTenant, I5 NoDirty and I6
// CountsTrue in every simulation, and that what it began with stays as it was.
func TestSimulateInvariants(t *testing.T) {
	t.Parallel()
	decisions := simulatedDecisions(t)
	rapid.Check(t, func(t *rapid.T) {
		state := simulate.State{Version: simulate.Version, Pools: []simulate.PoolState{{Name: "aws"}}, Bindings: imagined("aws", 4)}
		for i := range state.Bindings {
			state.Bindings[i].Name = fmt.Sprint("aws-", i+1)
		}
		pools, err := state.Build()
		if err != nil {
			t.Fatal(err)
		}
		before := pools["aws"].Clone()
		cache := gardener.NewOffline(state.Labels())
		sim := simulate.New(pools, nil, decisions, cache)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			e := simulatedEvent(t)
			if _, err := sim.Do(e); err != nil {
				t.Fatalf("%+v: %v", e, err)
			}
			checkSimulation(t, sim.Pools()["aws"], cache)
		}
		if !reflect.DeepEqual(before.Runtimes(), pools["aws"].Runtimes()) || !reflect.DeepEqual(before.Bindings(), pools["aws"].Bindings()) {
			t.Fatal("the simulation changed what it began with")
		}
	})
}

func checkSimulation(t *rapid.T, pool *account.Pool, cache *gardener.Offline) {
	on, tenants := map[string]int{}, map[string]string{}
	for _, rt := range pool.Runtimes() {
		if rt.State != account.RuntimeAssigned {
			continue
		}
		on[rt.Binding]++
		if other := tenants[rt.Binding]; other != "" && other != rt.Tenant {
			t.Fatalf("%s serves %s and %s", rt.Binding, other, rt.Tenant)
		}
		tenants[rt.Binding] = rt.Tenant
	}
	for name, n := range on {
		var b engine.Binding
		b, _ = cache.Cached(name)
		if rec := pool.Binding(name); rec.Count != n || b.Dirty || b.Tenant != tenants[name] {
			t.Fatalf("%s has %d runtimes of %s; record %+v, label %+v", name, n, tenants[name], rec, b)
		}
		if tenants[name][:3] == "sev" && n > simulatedLimit {
			t.Fatalf("%s has %d clusters", name, n)
		}
	}
}
