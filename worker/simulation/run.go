package simulation

import (
	"slices"
	"testing"
	"testing/synctest"
)

// Result is what came of a history.
type Result struct {
	Plan      Plan
	Violation string // the first invariant that did not hold, "" for none
	Trace     []Step
	Hash      uint64 // of the trace
	Events    int    // lines of the plan that came about
	Steps     int
	Moments   int
	Befell    map[Kind]int
}

// Play plays a history.
func Play(t *testing.T, plan Plan, mutant string) (r Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = play(plan, mutant) })
	return r
}

// play plays a history in the bubble of its caller.
func play(plan Plan, mutant string) Result {
	w := newWorld(plan, mutant)
	for n := range plan.Workers {
		w.processes = append(w.processes, w.start(n+1))
	}
	done := 0
	keepsOld := slices.ContainsFunc(plan.Items, func(i Item) bool { return i.Kind == RedisOlder || i.Kind == FailOver || i.Kind == FailBack })
	for _, item := range plan.Items {
		for left := item.After; left >= 0 && w.violation == ""; left-- {
			if !w.step() {
				break
			}
		}
		if w.violation != "" {
			break
		}
		if keepsOld && w.random.IntN(4) == 0 {
			w.older = w.masters[0].copy("older")
		}
		if w.befall(item) {
			w.befell[item.Kind]++
			done++
		}
	}
	if w.violation == "" {
		w.rest()
	}
	w.end()
	return Result{
		Plan: plan, Violation: w.violation, Trace: w.trace, Hash: w.hash, Events: done, Steps: w.steps, Moments: w.moments, Befell: w.befell,
	}
}
