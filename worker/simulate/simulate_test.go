package simulate_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine/account"
	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// taken is when every state of these tests was taken.
var taken = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// simulatedLimit is the limit of the tenants that may have several accounts.
const simulatedLimit = 2

func simulatedDecisions(t *testing.T) *terms.Decisions {
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
		return events.Event{Type: events.TypeProvision, ID: fmt.Sprint("req-", rapid.IntRange(1, 30).Draw(t, "id")), Provision: &events.Provision{
			RuntimeID: runtime, GlobalAccountID: rapid.SampledFrom([]string{"one-1", "one-2", "several-1", "several-2"}).Draw(t, "tenant"), Plan: "aws",
		}}
	case events.TypeDeprovision:
		return events.Event{Type: events.TypeDeprovision, Deprovision: &events.Deprovision{RuntimeID: runtime}}
	default:
		return events.Event{Type: events.TypeRelease, Release: &events.Release{Binding: fmt.Sprint("aws-", rapid.IntRange(1, 4).Draw(t, "binding"))}}
	}
}

// TestInvariants checks for every simulation: I2 WithinLimit, I3 OneTenant, I5 NoDirty and I6 CountsTrue
// hold, the initial state is not modified, and the same events have the same results.
func TestInvariants(t *testing.T) {
	t.Parallel()
	terms := simulate.Terms{Decisions: simulatedDecisions(t)}
	rapid.Check(t, func(t *rapid.T) {
		state := &simulate.State{Version: simulate.Version, TakenAt: taken, Pools: []simulate.PoolState{{Name: "aws"}}}
		for n := range 4 {
			state.Bindings = append(state.Bindings, simulate.Binding{Name: fmt.Sprint("aws-", n+1), HyperscalerType: "aws"})
		}
		var all []events.Event
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			all = append(all, simulatedEvent(t))
		}
		before := text(t, state)
		once, again := results(t, state, terms, all), results(t, state, terms, all)
		if once != again {
			t.Fatalf("the same events once\n%s\nand again\n%s", once, again)
		}
		if text(t, state) != before {
			t.Fatal("the simulation changed what it began with")
		}
	})
}

// results simulates events and checks the pool after each.
func results(t *rapid.T, state *simulate.State, terms simulate.Terms, all []events.Event) string {
	sim, err := simulate.New(t.Context(), state, terms)
	if err != nil {
		t.Fatal(err)
	}
	var out []simulate.Result
	for _, e := range all {
		r, err := sim.Do(t.Context(), e)
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		out = append(out, r)
		check(t, sim)
	}
	return text(t, out)
}

func text(t *rapid.T, v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func check(t *rapid.T, sim *simulate.Simulator) {
	on, tenants := map[string]int{}, map[string]string{}
	runtimes, err := sim.Runtimes(t.Context(), "aws")
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range runtimes {
		if rt.State != account.RuntimeAssigned {
			continue
		}
		on[rt.Binding]++
		if other := tenants[rt.Binding]; other != "" && other != rt.Tenant {
			t.Fatalf("%s serves %s and %s", rt.Binding, other, rt.Tenant)
		}
		tenants[rt.Binding] = rt.Tenant
	}
	for _, b := range sim.Bindings() {
		n := on[b.Name]
		if n == 0 {
			continue
		}
		rec, err := sim.Record(t.Context(), "aws", b.Name)
		if err != nil || rec.Count != n || b.Dirty || b.Tenant != tenants[b.Name] {
			t.Fatalf("%s has %d runtimes of %s; record %+v, label %+v, %v", b.Name, n, tenants[b.Name], rec, b, err)
		}
		if tenants[b.Name][:3] == "sev" && n > simulatedLimit {
			t.Fatalf("%s has %d clusters", b.Name, n)
		}
	}
}
