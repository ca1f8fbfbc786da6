package simulation

import (
	"fmt"
	"slices"
	"strings"
)

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
