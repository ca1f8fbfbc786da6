package simulation

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// number is a variable of the environment, or what to take without it.
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

// TestHistories plays HAP_SIMULATION histories from the seed HAP_SIMULATION_SEED on.
func TestHistories(t *testing.T) {
	n := number(t, "HAP_SIMULATION", 60)
	r := Campaign(t, uint64(number(t, "HAP_SIMULATION_SEED", 1)), n, Faults)
	t.Log(r)
	for i, failed := range r.Failed {
		if i == 3 {
			t.Fatalf("and %d more", len(r.Failed)-i)
		}
		t.Errorf("seed %d: %s\nshortened: %s", failed.Plan.Seed, failed.Violation, Shorten(t, failed, "", 200).Prose())
	}
	if missing := r.Missing(Faults); n >= 1000 && len(missing) > 0 {
		t.Errorf("never came: %v", missing)
	}
}

// TestSameSeedSameTrace plays every seed twice, in the whole world and in one where consumer and
// stream are deleted.
func TestSameSeedSameTrace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		kinds := Faults
		if seed%2 > 0 {
			kinds = []Kind{ConsumerGone, StreamGone, Death, Delay}
		}
		plan := Draw(seed, kinds)
		first, second := Play(t, plan, ""), Play(t, plan, "")
		if first.Hash != second.Hash {
			t.Errorf("seed %d has two traces, of %d and of %d steps", seed, first.Steps, second.Steps)
		}
	}
	if a, b := Play(t, Draw(1, Faults), ""), Play(t, Draw(2, Faults), ""); a.Hash == b.Hash {
		t.Error("two seeds have one trace")
	}
}

// TestKnownFailures finds every fault that is not cured. One that is not found any more is
// to be taken off the list.
func TestKnownFailures(t *testing.T) {
	t.Parallel()
	for _, f := range Failures {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			for seed := f.Seed; seed < f.Seed+uint64(number(t, "HAP_SIMULATION_TRIES", 10)); seed++ {
				if r := Play(t, Draw(seed, f.Kinds), ""); strings.HasPrefix(r.Violation, f.Breaks) {
					t.Logf("seed %d: %s", seed, r.Violation)
					return
				}
			}
			t.Errorf("not found: if it is cured, take it off the list and let every run have its faults")
		})
	}
}

// TestMutants finds each rule that is switched off. With HAP_SIMULATION_TRIES it looks as long as
// that says, from the first seed on.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, m := range Mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			from, tries := m.Seed, number(t, "HAP_SIMULATION_TRIES", 10)
			if os.Getenv("HAP_SIMULATION_TRIES") != "" {
				from = 0
			}
			for seed := from; seed < from+uint64(tries); seed++ {
				r := Play(t, Draw(seed, m.kinds()), m.Name)
				if r.Violation != "" && Play(t, Draw(seed, m.kinds()), "").Violation == "" {
					t.Logf("rule %s, %s: seed %d: %s", m.Rule, m.Does, seed, r.Violation)
					return
				}
			}
			t.Errorf("rule %s, %s: not found", m.Rule, m.Does)
		})
	}
}
