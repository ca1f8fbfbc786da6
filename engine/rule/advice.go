package rule

import (
	"maps"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

// advice returns the next step for a plan that does not exist.
func (p Plans) advice(name string) string {
	if _, output := outputNamed(name); output {
		return "in a YAML list of the form [a, b] a comma ends the entry: quote the rule that this belongs to"
	}
	for _, plan := range slices.Sorted(maps.Keys(p)) {
		if slices.Contains(p[plan].Providers, name) {
			return "it is a provider, a plan of it is " + plan
		}
	}
	known := slices.Sorted(maps.Keys(p))
	if meant := spelling.Closest(name, known); meant != "" {
		return "did you mean " + meant + "?"
	}
	return "add it to hap.plans, or use one of " + strings.Join(known, ", ")
}

// either joins names for a sentence: "a", "a or b", "a, b or c".
func either(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
