package rule_test

import (
	"slices"
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
