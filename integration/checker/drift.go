package checker

import (
	"fmt"
	"slices"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/simulation/promises"
)

// Drift lists the differences at rest between the labels and Shoots in Gardener, and Redis and the ledger. A dirty
// account that waits for its cleanup is none.
func (f Facts) Drift() []string {
	var found []string
	say := func(format string, args ...any) { found = append(found, "drift: "+fmt.Sprintf(format, args...)) }
	f.InForce = f.live(func(string, string, ...any) {})
	f.Answered = f.answered()
	f.Labels(func(_, format string, args ...any) { say(format, args...) })
	for at, r := range f.Records {
		if _, known := f.Bindings[at.Binding]; !known {
			say("%s has the record %+v, Gardener does not have it", at.Binding, r)
		}
	}
	slices.Sort(found)
	return found
}

// answered returns the claims of all assigned replies. A claim that no reply names may stay without runtimes.
func (f Facts) answered() map[promises.Claim]bool {
	all := map[promises.Claim]bool{}
	for _, r := range f.Replies {
		if r.Status == events.StatusAssigned {
			all[promises.Claim{Binding: r.Binding.Name, Generation: r.Binding.Generation}] = true
		}
	}
	return all
}

// Idle returns the bindings that are claimed without runtimes because no reply named their claim: the drift
// claimed-idle, which is reported but not repaired automatically.
func (f Facts) Idle() []string {
	var idle []string
	answered := f.answered()
	for name, b := range f.Bindings {
		if !b.Shared && b.Tenant != "" && !b.Dirty && f.Record(b).Count == 0 && !answered[promises.Claim{Binding: name, Generation: b.Generation}] {
			idle = append(idle, name)
		}
	}
	slices.Sort(idle)
	return idle
}
