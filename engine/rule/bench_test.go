package rule_test

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/rule"
)

func number(i int) string { return strconv.Itoa(i) }

// manyRules are n rules of one plan: a plain one, then for each platform region
// one that names it and one that names a hyperscaler region with it.
func manyRules(n int) []string {
	texts := []string{"aws -> HR"}
	for i := 1; len(texts) < n; i++ {
		texts = append(texts, fmt.Sprintf("aws(PR=cf-eu%d) -> EU, HR", i))
		if len(texts) < n {
			texts = append(texts, fmt.Sprintf("aws(PR=cf-eu%d, HR=eu-central-%d) -> PR", i, i))
		}
	}
	return texts
}

// manyRequests hit rules with two inputs, with one and with none.
func manyRequests(n int) []rule.Request {
	var all []rule.Request
	for i := range 256 {
		at := number(1 + i*(n/2-1)/256)
		r := rule.Request{Plan: "aws", PlatformRegion: "cf-eu" + at, HyperscalerRegion: "eu-central-" + at, Tenant: "ga-1"}
		switch i % 3 {
		case 1:
			r.HyperscalerRegion = "us-east-1"
		case 2:
			r.PlatformRegion = "cf-none"
		}
		all = append(all, r)
	}
	return all
}

var sizes = []int{10, 21, 200, 2000, 10000}

func BenchmarkMatch(b *testing.B) {
	for _, n := range sizes {
		set, err := rule.Compile(manyRules(n), rule.Options{Require: []string{}})
		if err != nil {
			b.Fatal(err)
		}
		requests := manyRequests(n)
		b.Run("rules="+number(n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := set.Match(requests[i%len(requests)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMatchLists is the older form: half the members for platform regions,
// half for hyperscaler regions.
func BenchmarkMatchLists(b *testing.B) {
	for _, n := range sizes {
		var platform, cluster []string
		for i := range n / 2 {
			platform = append(platform, fmt.Sprintf("aws:cf-eu%d", i+1))
			cluster = append(cluster, fmt.Sprintf("aws:eu-central-%d", i+1))
		}
		set, err := rule.CompileLists(rule.Lists{EUAccess: strings.Join(platform, ";"), ClusterRegion: strings.Join(cluster, ";")}, rule.Options{})
		if err != nil {
			b.Fatal(err)
		}
		requests := manyRequests(n)
		b.Run("members="+number(n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := set.Match(requests[i%len(requests)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMatchBySorting measures the method of the previous service: for every request, it copies a plan's
// rules and sorts them by the number of their inputs.
func BenchmarkMatchBySorting(b *testing.B) {
	for _, n := range sizes {
		byPlan := map[string][]*rule.Entry{}
		for _, text := range manyRules(n) {
			e, err := rule.Parse(text)
			if err != nil {
				b.Fatal(err)
			}
			byPlan[e.Plan] = append(byPlan[e.Plan], &e)
		}
		requests := manyRequests(n)
		b.Run("rules="+number(n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if matchBySorting(byPlan, requests[i%len(requests)]) == "" {
					b.Fatal("no match")
				}
			}
		})
	}
}

func matchBySorting(byPlan map[string][]*rule.Entry, r rule.Request) string {
	inputs := func(e *rule.Entry) int {
		n := 0
		if e.PlatformRegion != "" {
			n++
		}
		if e.HyperscalerRegion != "" {
			n++
		}
		return n
	}
	sorted := slices.Clone(byPlan[r.Plan])
	sort.SliceStable(sorted, func(i, j int) bool { return inputs(sorted[i]) > inputs(sorted[j]) })
	for _, e := range sorted {
		if _, ok := weigh(*e, r); !ok {
			continue
		}
		kind := "aws"
		if e.Outputs.Has(rule.OutputPlatformRegion) {
			kind += "_" + r.PlatformRegion
		}
		if e.Outputs.Has(rule.OutputHyperscalerRegion) {
			kind += "_" + r.HyperscalerRegion
		}
		return kind
	}
	return ""
}

func BenchmarkSelectors(b *testing.B) {
	set, err := rule.Compile([]string{"aws"}, rule.Options{Require: []string{}})
	if err != nil {
		b.Fatal(err)
	}
	m, err := set.Match(rule.Request{Plan: "aws", Tenant: "ga-1"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = m.TenantSelector(), m.ClaimSelector()
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rule.Parse("aws(PR=cf-eu11, HR=eu-central-1) -> HR, EU"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{10, 10000} {
		texts := manyRules(n)
		b.Run("rules="+number(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rule.Compile(texts, rule.Options{Require: []string{}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
