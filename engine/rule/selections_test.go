package rule_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// TestSelectionsAreAllWays: if a request is served from a pool, Selections of the pool has its plan and rule,
// in both forms.
func TestSelectionsAreAllWays(t *testing.T) {
	t.Parallel()
	requests := asked()
	rapid.Check(t, func(t *rapid.T) {
		set := drawSet(t)
		known := map[engine.Pool][]rule.Selection{}
		for _, r := range requests {
			m, err := set.Match(r)
			if err != nil {
				continue
			}
			if _, there := known[m.Pool]; !there {
				known[m.Pool] = set.Selections(m.Pool)
			}
			if !slices.Contains(known[m.Pool], rule.Selection{Plan: r.Plan, Rule: m.Rule, RuleNumber: m.RuleNumber}) {
				t.Fatalf("%+v is served from %s by %s, the ways there are %+v", r, m.Pool.Name(), m.Rule, known[m.Pool])
			}
		}
	})
}

func drawSet(t *rapid.T) *rule.Ruleset {
	if rapid.Bool().Draw(t, "older") {
		lists, _ := drawLists(t)
		set, err := rule.CompileLists(lists, rule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	compile := func(t *rapid.T) *rule.Ruleset {
		set, err := rule.Compile(spelled(rapid.SliceOfN(rapid.Custom(drawEntry), 1, 6).Draw(t, "entries")), rule.Options{Require: []string{}})
		if err != nil {
			return nil // faulty: drawn again
		}
		return set
	}
	return rapid.Custom(compile).Filter(func(set *rule.Ruleset) bool { return set != nil }).Draw(t, "set")
}
