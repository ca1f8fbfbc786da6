package simulation

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/worker/simulation/plans"
	"github.com/hap-worker/hap-worker/worker/simulation/trace"
)

// Result is the outcome of a history.
type Result struct {
	Plan      plans.Plan
	Violation string // the first invariant that did not hold, "" for none
	Trace     trace.Trace
	Events    int // items of the plan that were executed, without faults that wait for a call
	Steps     int
	Moments   int
	Befell    map[plans.Kind]int
	Called    map[string]int // calls that the scheduler chose, by operation
}

// Brief returns the violation, the plan, and at most 60 steps of the trace, chosen by the violation.
func (r Result) Brief() string {
	return fmt.Sprintf("seed %d, since step %d, after %s: %s\n\n%s\n%s",
		r.Plan.Seed, r.Steps, r.Simulated().Round(time.Second), r.Violation, r.Plan.Prose(), r.Trace.Brief(r.Violation))
}

// Prose describes the history: its plan, then its trace.
func (r Result) Prose() string {
	return fmt.Sprintf("seed %d: %s\n\n%s\n%s", r.Plan.Seed, r.Violation, r.Plan.Prose(), r.Trace.Prose())
}

// Simulated is the virtual time that the history took.
func (r Result) Simulated() time.Duration { return time.Duration(r.Moments) * moment }

// Play plays a history in a new synctest bubble. mutant names the rule to switch off, "" for none.
func Play(t *testing.T, plan plans.Plan, mutant string) (r Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = play(plan, mutant) })
	return r
}

// play plays a history in its caller's bubble.
func play(plan plans.Plan, mutant string) Result {
	w := newWorld(plan, mutant)
	for n := range plan.Workers {
		w.processes = append(w.processes, w.start(n+1))
	}
	done := 0
	keepsOld := slices.ContainsFunc(plan.Items, func(i plans.Item) bool {
		return i.Kind == plans.RedisOlder || i.Kind == plans.FailOver || i.Kind == plans.FailBack
	})
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
			w.older = w.masters[0].Copy("older")
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
		Plan: plan, Violation: w.violation, Trace: w.trace, Events: done, Steps: w.steps, Moments: w.moments, Befell: w.befell, Called: w.called,
	}
}
