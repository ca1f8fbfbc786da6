package rule_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/rule"
)

func outcome(set *rule.Ruleset, r rule.Request) string {
	m, err := set.Match(r)
	coded := &engine.Error{}
	if errors.As(err, &coded) {
		return string(coded.Code)
	}
	return m.Pool.Name()
}

// leads reports whether a way is the outcome of a request; a * in the pool matches any region.
func leads(w rule.Way, outcome string) bool {
	shown := w.Pool + string(w.Code)
	parts := strings.Split(shown, "*")
	return shown == outcome || len(parts) > 1 && strings.HasPrefix(outcome, parts[0]) && strings.HasSuffix(outcome, parts[len(parts)-1])
}

// TestCompareIsMatch: a comparison has exactly the requests that two rule sets, of either form, lead to
// different pools, with these pools.
func TestCompareIsMatch(t *testing.T) {
	t.Parallel()
	requests := slices.Concat(asked(), []rule.Request{{Plan: "trial"}, {Plan: "edge"}})
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawSet(t), drawSet(t)
		c, err := rule.Compare(before, after)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			was, is := outcome(before, r), outcome(after, r)
			at, differs := c.Of(r)
			switch {
			case differs != (was != is):
				t.Fatalf("%+v was led to %s and is to %s; the comparison says %t", r, was, is, differs)
			case differs && (!leads(c.Differences[at].Before, was) || !leads(c.Differences[at].After, is)):
				t.Fatalf("%+v was led to %s and is to %s; the comparison has %+v", r, was, is, c.Differences[at])
			}
		}
		if same, err := rule.Compare(after, after); err != nil || len(same.Differences) > 0 {
			t.Fatalf("a set differs from itself: %+v, %v", same, err)
		}
	})
}

// TestCompareProviders: a changed default is a difference for requests that name no provider.
func TestCompareProviders(t *testing.T) {
	t.Parallel()
	set := func(plan rule.Plan) *rule.Ruleset {
		s, err := rule.Compile([]string{"edge"}, rule.Options{Plans: rule.Plans{"edge": plan}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	two := []string{"aws", "gcp"}
	for _, c := range []struct {
		before, after rule.Plan
		want          string
	}{
		{rule.Plan{Providers: two, Default: "aws"}, rule.Plan{Providers: two, Default: "aws"}, ""},
		{rule.Plan{Providers: two, Default: "aws"}, rule.Plan{Providers: two, Default: "gcp"}, " aws gcp;"},
		{rule.Plan{Providers: two}, rule.Plan{Providers: two, Default: "gcp"}, " UnknownProvider gcp;"},
		{rule.Plan{Providers: two[:1]}, rule.Plan{Providers: two[1:]}, " aws gcp;aws aws UnknownProvider;gcp UnknownProvider gcp;"},
	} {
		compared, err := rule.Compare(set(c.before), set(c.after))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, d := range compared.Differences {
			got += fmt.Sprintf("%s %s %s;", d.Provider, d.Before.Pool+string(d.Before.Code), d.After.Pool+string(d.After.Code))
		}
		if got != c.want {
			t.Errorf("%+v and %+v: %q, want %q", c.before, c.after, got, c.want)
		}
	}
}

// TestCompareRefusesTooMany: too many combinations of regions and providers are an error.
func TestCompareRefusesTooMany(t *testing.T) {
	t.Parallel()
	texts := []string{"aws"}
	for i := range 1000 {
		texts = append(texts, fmt.Sprintf("aws(PR=p%d, HR=h%d)", i, i))
	}
	s, err := rule.Compile(texts, rule.Options{Require: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rule.Compare(s, s); err == nil || !strings.Contains(err.Error(), "plan aws has 1004004 combinations of regions and providers") {
		t.Errorf("the error is %v", err)
	}
}
