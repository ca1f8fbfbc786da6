package rule_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine"
	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
	"github.com/hap-worker/hap-worker/engine/rule"
)

// TestMatchIsTheMostSpecific compares the compiled search with its definition: of the matching entries, the
// one with the most inputs. A set is refused exactly if two entries can tie.
func TestMatchIsTheMostSpecific(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfN(rapid.Custom(drawEntry), 1, 12).Draw(t, "entries")
		set, err := rule.Compile(spelled(entries), rule.Options{Require: []string{}})
		undecided := false
		for _, request := range allRequests() {
			best := mostSpecific(entries, request)
			undecided = undecided || len(best) > 1
			if err == nil {
				compare(t, set, entries, best, request)
			}
		}
		if undecided != (err != nil) {
			t.Fatalf("undecided %v, but compiling gives %v", undecided, err)
		}
	})
}

func spelled(entries []rule.Entry) []string {
	texts := make([]string, len(entries))
	for i, e := range entries {
		texts[i] = e.String()
	}
	return texts
}

func allRequests() []rule.Request {
	var all []rule.Request
	regions := []string{"", "a", "b", "cf-eu11", "elsewhere"}
	for _, plan := range []string{"aws", "azure", "gcp"} {
		for _, pr := range regions {
			for _, hr := range regions {
				all = append(all, rule.Request{Plan: plan, PlatformRegion: pr, HyperscalerRegion: hr})
			}
		}
	}
	return all
}

// mostSpecific returns the positions of the matching entries with the most regions. Two of them for one
// request are a duplicate or an ambiguity.
func mostSpecific(entries []rule.Entry, r rule.Request) []int {
	var best []int
	most := -1
	for i, e := range entries {
		weight, ok := weigh(e, r)
		switch {
		case !ok || weight < most:
		case weight > most:
			best, most = []int{i}, weight
		default:
			best = append(best, i)
		}
	}
	return best
}

func weigh(e rule.Entry, r rule.Request) (weight int, ok bool) {
	for _, pair := range [][2]string{{e.PlatformRegion, r.PlatformRegion}, {e.HyperscalerRegion, r.HyperscalerRegion}} {
		if pair[0] == "" {
			continue
		}
		if pair[0] != pair[1] {
			return 0, false
		}
		weight++
	}
	return weight, e.Plan == r.Plan
}

func compare(t *rapid.T, set *rule.Ruleset, entries []rule.Entry, best []int, r rule.Request) {
	m, err := set.Match(r)
	if len(best) == 0 {
		if engine.CodeOf(err) != engine.CodeNoMatchingRule {
			t.Fatalf("%+v: %+v, %v; want no match", r, m, err)
		}
		return
	}
	e := entries[best[0]]
	missing := e.Outputs.Has(rule.OutputPlatformRegion) && r.PlatformRegion == "" ||
		e.Outputs.Has(rule.OutputHyperscalerRegion) && r.HyperscalerRegion == ""
	switch {
	case missing && engine.CodeOf(err) != engine.CodeInvalidEvent:
		t.Fatalf("%+v by %s: %v; want a missing region", r, e, err)
	case !missing && (err != nil || m.RuleNumber != best[0]+1 || m.Rule != e.String()):
		t.Fatalf("%+v: rule %d %q, %v; want %d %s", r, m.RuleNumber, m.Rule, err, best[0]+1, e)
	}
}

// TestRuleTextIsTheConfigured: answers show the rule as its author wrote it.
func TestRuleTextIsTheConfigured(t *testing.T) {
	t.Parallel()
	set, err := rule.Compile([]string{"\n  aws( PR=* )->EU,S \t"}, rule.Options{Require: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := set.Match(rule.Request{Plan: "aws"})
	if err != nil || m.Rule != "aws( PR=* )->EU,S" {
		t.Fatalf("%q, %v", m.Rule, err)
	}
}

// TestAmbiguitiesAreBounded: the faults of a set grow with the product of its regions, but the report is
// bounded.
func TestAmbiguitiesAreBounded(t *testing.T) {
	t.Parallel()
	var texts []string
	for i := range 1000 {
		texts = append(texts, "aws(PR=r"+number(i)+")", "aws(HR=r"+number(i)+")")
	}
	faults, _ := rule.Check(texts, rule.Options{Require: []string{}})
	last := faults[len(faults)-1].Message
	if len(faults) != 201 || !strings.Contains(last, "more ambiguities than the 200") {
		t.Fatalf("%d faults, the last is %q", len(faults), last)
	}
}

// TestMatchAllocatesOnlyItsText: a match allocates one string if the hyperscaler type contains a region, and
// nothing otherwise.
func TestMatchAllocatesOnlyItsText(t *testing.T) {
	set, err := rule.Compile([]string{"aws", "gcp -> PR", "azure -> PR, HR"}, rule.Options{Require: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	for plan, want := range map[string]float64{"aws": 0, "gcp": 1, "azure": 1} {
		r := rule.Request{Plan: plan, PlatformRegion: "cf-eu11", HyperscalerRegion: "eu-central-1", Tenant: "ga-1"}
		got := testing.AllocsPerRun(100, func() {
			if _, err := set.Match(r); err != nil {
				t.Fatal(err)
			}
		})
		if got != want {
			t.Errorf("plan %s: %v allocations, want %v", plan, got, want)
		}
	}
}
