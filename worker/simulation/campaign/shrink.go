package campaign

import (
	"regexp"
	"testing"

	"github.com/hap-worker/hap-worker/worker/simulation"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

// names are what differs between two histories that break the same thing.
var names = regexp.MustCompile(`"[^"]*"|[a-z]+-[0-9]+|[0-9]+|\{.*`)

// class is a violation without the names in it.
func class(violation string) string { return names.ReplaceAllString(violation, "…") }

// Shorten looks for a shorter plan that breaks the same in the same way: fewer lines, then fewer
// workers, and plays at most tries histories for that.
func Shorten(t *testing.T, r simulation.Result, mutant string, tries int) simulation.Result {
	t.Helper()
	breaks := func(p plans.Plan) bool {
		for range 3 { // another order of steps may show it where this one does not
			if tries--; tries < 0 {
				return false
			}
			got := simulation.Play(t, p, mutant)
			if class(got.Violation) == class(r.Violation) {
				r = got
				return true
			}
			p.Seed += 1 << 40
		}
		return false
	}
	for size := len(r.Plan.Items) / 2; size > 0; size /= 2 {
		for at := 0; at < len(r.Plan.Items) && tries > 0; {
			if !breaks(r.Plan.Without(at, min(at+size, len(r.Plan.Items)))) {
				at += size
			}
		}
	}
	for r.Plan.Workers > 1 {
		fewer := r.Plan
		if fewer.Workers--; !breaks(fewer) {
			break
		}
	}
	return r
}
