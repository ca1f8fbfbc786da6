package simulation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// names are what differs between two histories that break the same thing.
var names = regexp.MustCompile(`"[^"]*"|[a-z]+-[0-9]+|[0-9]+|\{.*`)

// class is a violation without the names in it.
func class(violation string) string { return names.ReplaceAllString(violation, "…") }

// Shorten looks for a shorter plan that breaks the same in the same way: fewer lines, then fewer
// workers, and plays at most tries histories for that.
func Shorten(t *testing.T, r Result, mutant string, tries int) Result {
	t.Helper()
	breaks := func(p Plan) bool {
		for range 3 { // another order of steps may show it where this one does not
			if tries--; tries < 0 {
				return false
			}
			got := Play(t, p, mutant)
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
			if !breaks(r.Plan.without(at, min(at+size, len(r.Plan.Items)))) {
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

// Prose tells a history: its plan, then its trace.
func (r Result) Prose() string {
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d: %s\n\n%d workers, %d bindings, limit %d, network ranges %t\n", r.Plan.Seed, r.Violation, r.Plan.Workers, r.Plan.Bindings, r.Plan.Limit, r.Plan.Networks)
	for _, i := range r.Plan.Items {
		fmt.Fprintf(&text, "  %s\n", i)
	}
	text.WriteString("\n")
	steps := slices.DeleteFunc(slices.Clone(r.Trace), Step.dull)
	for i, s := range steps {
		if s.Op != opTime || i+1 == len(steps) || steps[i+1].Op != opTime {
			fmt.Fprintf(&text, "%s\n", s)
		}
	}
	return text.String()
}

// dull are the steps that a reader can do without.
func (s Step) dull() bool {
	nothing := strings.Contains(s.How, "message not found")
	return s.How == "the answer arrives" || s.Op == opBuilt && s.How == "" || strings.HasPrefix(s.Op, "state of") ||
		nothing && strings.Contains(s.Arg, ".waiting.") || nothing && strings.HasPrefix(s.Arg, ">") ||
		s.Op == opAsk || s.Op == opInfo || s.Op == "looks at all labels" || strings.Contains(s.Actor, " sweep ") && (s.Op == opPools || s.Op == "bindings")
}
