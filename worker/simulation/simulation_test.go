package simulation_test

import (
	"fmt"
	"os"
	"os/signal"
	goruntime "runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hap-worker/hap-worker/engine/seedtest"
	"github.com/hap-worker/hap-worker/worker/simulation"
	"github.com/hap-worker/hap-worker/worker/simulation/campaign"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

// number returns an environment variable, or its default.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestHistories plays HAP_SIMULATION histories from the seed HAP_SIMULATION_SEED on, and keeps those that
// fail in HAP_SIMULATION_DIR. It stops at a signal.
func TestHistories(t *testing.T) {
	n := number(t, "HAP_SIMULATION", 400)
	ctx, ignore := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer ignore()
	c := campaign.Campaign{
		Seed: uint64(number(t, "HAP_SIMULATION_SEED", int(seedtest.Of(t)))), N: n, Kinds: plans.Faults,
		Dir: os.Getenv("HAP_SIMULATION_DIR"), Stop: ctx.Done(), Tell: func(r campaign.Report) { fmt.Fprintln(os.Stderr, r.Progress()) },
	}
	r := c.Run(t)
	t.Log(r)
	for i, failed := range r.Failed {
		if i >= 3 { // told at length is enough of three
			t.Errorf("seed %d: %s", failed.Plan.Seed, failed.Violation)
			continue
		}
		t.Errorf("seed %d: %s\nshortened: %s", failed.Plan.Seed, failed.Violation, campaign.Shorten(t, failed, "", 200).Brief())
	}
	if rest := r.Rest(); rest != "" {
		t.Error(rest)
	}
	if missing := r.Missing(plans.Faults); n >= 1000 && len(missing) > 0 {
		t.Errorf("never came: %q", missing)
	}
}

// TestSameSeedSameTrace plays 40 seeds twice each, or HAP_SIMULATION_TWICE: half of them with all faults, the others
// with few, among which consumer and stream are deleted. Of seeds from HAP_SIMULATION_SEED on, all draw from all faults.
func TestSameSeedSameTrace(t *testing.T) {
	t.Parallel()
	from, n := uint64(number(t, "HAP_SIMULATION_SEED", 0)), number(t, "HAP_SIMULATION_TWICE", 40)
	for part := range goruntime.GOMAXPROCS(0) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for seed := from + uint64(part); seed < from+uint64(n); seed += uint64(goruntime.GOMAXPROCS(0)) {
				kinds := plans.Faults
				if from == 0 && seed%2 > 0 {
					kinds = []plans.Kind{plans.ConsumerGone, plans.StreamGone, plans.Death, plans.Delay}
				}
				plan := plans.Draw(seed, kinds)
				first, second := simulation.Play(t, plan, ""), simulation.Play(t, plan, "")
				if first.Trace.Hash != second.Trace.Hash {
					t.Errorf("seed %d has two traces: %s", seed, first.Trace.Parting(&second.Trace))
				}
			}
		})
	}
	if a, b := simulation.Play(t, plans.Draw(1, plans.Faults), ""), simulation.Play(t, plans.Draw(2, plans.Faults), ""); a.Trace.Hash == b.Trace.Hash {
		t.Error("two seeds have one trace")
	}
}

// TestCuredFailures replays histories that failed once.
func TestCuredFailures(t *testing.T) {
	t.Parallel()
	for seed, was := range campaign.Cured {
		if r := simulation.Play(t, plans.Draw(seed, plans.FirstFaults), ""); r.Violation != "" {
			t.Errorf("seed %d, where %s: %s", seed, was, r.Violation)
		}
	}
	for _, f := range campaign.CuredNarrow {
		if r := simulation.Play(t, plans.Draw(f.Seed, f.Kinds), ""); r.Violation != "" {
			t.Errorf("seed %d, where %s: %s", f.Seed, f.Name, r.Violation)
		}
	}
}

// TestKnownFailures finds each known failure again. A failure that is not found any more has to be removed
// from the list.
func TestKnownFailures(t *testing.T) {
	t.Parallel()
	for _, f := range campaign.Failures {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			for seed := f.Seed; seed < f.Seed+uint64(number(t, "HAP_SIMULATION_TRIES", 10)); seed++ {
				if r := simulation.Play(t, plans.Draw(seed, f.Kinds), ""); strings.HasPrefix(r.Violation, f.Breaks) {
					t.Logf("seed %d: %s", seed, r.Violation)
					return
				}
			}
			t.Errorf("not found: if it is cured, move it from Failures to CuredNarrow, and add its faults to plans.Faults")
		})
	}
}

// TestMutants detects each rule that is switched off. If HAP_SIMULATION_TRIES is set, it searches that many
// histories from seed 0 on.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, m := range campaign.Mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			from, tries := m.Seed, number(t, "HAP_SIMULATION_TRIES", 10)
			if os.Getenv("HAP_SIMULATION_TRIES") != "" {
				from = 0
			}
			for seed := from; seed < from+uint64(tries); seed++ {
				r := simulation.Play(t, plans.Draw(seed, m.Draws()), m.Name)
				if r.Violation != "" && simulation.Play(t, plans.Draw(seed, m.Draws()), "").Violation == "" {
					t.Logf("rule %s, %s: seed %d: %s", m.Rule, m.Does, seed, r.Violation)
					return
				}
			}
			t.Errorf("rule %s, %s: not found", m.Rule, m.Does)
		})
	}
}
