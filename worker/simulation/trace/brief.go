package trace

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// brief is the maximal number of steps in a brief.
const brief = 60

// named matches names of runtimes, bindings and most requests, and network blocks.
var named = regexp.MustCompile(`\b(?:rt|b|p|d|r|x)-[0-9]+\b|\b[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+/[0-9]+\b`)

// Brief returns at most 60 steps, in their order. It chooses first the last ones that touch a name in the violation,
// then the last faults and installs, then the last steps that share a name with those.
func (t *Trace) Brief(violation string) string {
	about := map[string]bool{}
	for _, name := range named.FindAllString(violation, -1) {
		about[name] = true
	}
	chosen := map[int]bool{}
	steps := slices.DeleteFunc(slices.Clone(t.Steps), func(s Step) bool { return s.dull() || s.Op == Time })
	next := map[string]bool{}
	choose := func(most int, which func(Step) bool) {
		for i := len(steps) - 1; i >= 0 && len(chosen) < most; i-- {
			if !chosen[i] && which(steps[i]) {
				chosen[i] = true
				for _, name := range named.FindAllString(steps[i].String(), -1) {
					next[name] = true
				}
			}
		}
	}
	touches := func(names map[string]bool) func(Step) bool {
		return func(s Step) bool {
			return slices.ContainsFunc(named.FindAllString(s.String(), -1), func(name string) bool { return names[name] })
		}
	}
	choose(brief*2/3, touches(about))
	choose(brief*5/6, func(s Step) bool { return s.Actor == "fault" || strings.HasPrefix(s.Op, "install") })
	choose(brief, touches(next))
	var text strings.Builder
	left := 0
	for i, s := range steps {
		if !chosen[i] {
			left++
			continue
		}
		if left > 0 {
			fmt.Fprintf(&text, "%8s  … %d steps\n", "", left)
		}
		left = 0
		fmt.Fprintf(&text, "%s\n", s)
	}
	return text.String()
}
