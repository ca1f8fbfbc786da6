package rule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/rule"
)

func TestUnservedNamesRulesWithoutAnyBinding(t *testing.T) {
	t.Parallel()
	rules, err := rule.Compile([]string{
		"aws", "aws(PR=cf-eu11) -> EU", "gcp", "gcp(PR=cf-sa30) -> PR", "trial -> S",
		"sap-converged-cloud -> HR, S", "azure(PR=cf-ch20) -> PR, HR", "azure",
	}, rule.Options{Require: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		pools []engine.Pool
		want  []string
	}{
		{"none at all", nil, []string{
			"aws", "aws(PR=cf-eu11) -> EU", "gcp", "gcp(PR=cf-sa30) -> PR", "trial -> S",
			"sap-converged-cloud -> HR, S", "azure(PR=cf-ch20) -> PR, HR", "azure",
		}},
		{"one provider of a plan with two is enough", []engine.Pool{
			{HyperscalerType: "aws"}, {HyperscalerType: "aws", EUAccess: true}, {HyperscalerType: "gcp"},
			{HyperscalerType: "gcp_cf-sa30"}, {HyperscalerType: "azure", Shared: true},
			{HyperscalerType: "openstack_eu-de-1", Shared: true},
			{HyperscalerType: "azure_cf-ch20_switzerlandnorth"}, {HyperscalerType: "azure"},
		}, nil},
		{"another region, not shared, not in the EU", []engine.Pool{
			{HyperscalerType: "aws"}, {HyperscalerType: "aws", EUAccess: true, Shared: true}, {HyperscalerType: "gcp"},
			{HyperscalerType: "gcp_cf-sa31"}, {HyperscalerType: "azure"},
			{HyperscalerType: "openstack", Shared: true}, {HyperscalerType: "azure_cf-eu20_westeurope"},
		}, []string{
			"aws(PR=cf-eu11) -> EU", "gcp(PR=cf-sa30) -> PR", "trial -> S",
			"sap-converged-cloud -> HR, S", "azure(PR=cf-ch20) -> PR, HR",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := rules.Unserved(c.pools); !slices.Equal(got, c.want) {
				t.Errorf("unserved are %q\nwant %q", got, c.want)
			}
		})
	}
}

// A region that is open has at least one character, and may have a "_"; the platform region comes first.
func TestUnservedComparesRegionsInTheirOrder(t *testing.T) {
	t.Parallel()
	for text, kinds := range map[string]struct{ served, unserved string }{
		"aws":                      {"aws", "aws_ aws_a gcp"},
		"aws -> PR":                {"aws_a aws_a_b", "aws aws_"},
		"aws -> HR":                {"aws_a aws_a_b", "aws aws_"},
		"aws -> PR, HR":            {"aws_a_b aws_a_b_c", "aws aws_a aws_a_ aws__a aws__"},
		"aws(PR=a) -> PR":          {"aws_a", "aws aws_b aws_a_b aws_b_a"},
		"aws(PR=a) -> HR":          {"aws_b aws_a", "aws"},
		"aws(PR=a) -> PR, HR":      {"aws_a_b aws_a_a aws_a_b_c", "aws aws_a aws_a_ aws_b_a aws_ab_c"},
		"aws(HR=a) -> PR, HR":      {"aws_b_a aws_a_a aws_b_c_a", "aws aws_a aws__a aws_a_b aws_c_ba"},
		"aws(PR=a, HR=b) -> PR,HR": {"aws_a_b", "aws aws_a aws_b aws_b_a aws_a_x_b"},
	} {
		rules, err := rule.Compile([]string{text}, rule.Options{Require: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		for kind := range strings.FieldsSeq(kinds.served + " " + kinds.unserved) {
			unserved := slices.Contains(strings.Fields(kinds.unserved), kind)
			if got := rules.Unserved([]engine.Pool{{HyperscalerType: kind}}); len(got) == 1 != unserved {
				t.Errorf("%s with %s: unserved are %q", text, kind, got)
			}
		}
	}
}

// The result for very many pairs of regions is that for few: a cluster region of which all bindings are shared is
// served by requests of a shared platform region, and a plan without a pool is named once.
func TestUnservedOfManyRegions(t *testing.T) {
	t.Parallel()
	for _, regions := range []int{2, 40} {
		lists := rule.Lists{PlatformRegion: "gcp:x"}
		var shared, clusters []string
		var pools []engine.Pool
		for n := range regions {
			shared, clusters = append(shared, fmt.Sprintf("aws:cf-%d", n)), append(clusters, fmt.Sprintf("aws:eu-%d", n))
			pools = append(pools, engine.Pool{HyperscalerType: fmt.Sprintf("aws_eu-%d", n), Shared: true})
		}
		lists.Shared, lists.ClusterRegion = strings.Join(shared, ";"), strings.Join(clusters, ";")
		rules, err := rule.CompileLists(lists, rule.Options{
			Plans: rule.Plans{"aws": {Providers: []string{"aws"}, Required: true}, "gcp": {Providers: []string{"gcp"}}}, Require: []string{},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := rules.Unserved(pools), []string{"plan aws", "platformRegionRule gcp:x"}; !slices.Equal(got, want) {
			t.Errorf("of %d regions each, unserved are %q\nwant %q", regions, got, want)
		}
	}
}
