package rules

import (
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// TestTablesFitATerminal holds the tables of this package to a terminal's width.
func TestTablesFitATerminal(t *testing.T) {
	t.Parallel()
	const (
		plan = "build-runtime-aws"
		long = plan + "(PR=cf-eu11,HR=eu-central-1) -> EU,S,PR,HR,build-runtime-aws(PR=cf-eu11,HR=eu-central-1)"
		text = "is for platform region cf-eu11 and hyperscaler region eu-central-1, the request has cf-sa30 and none of them"
	)
	fault := rule.Fault{Key: "platformRegionRule", Rule: 123, Column: 12, Kind: "syntax", Text: long, Message: text}
	clitest.FitsATerminal(t, "rules check", checkView{Errors: []rule.Fault{fault}, Warnings: []rule.Fault{fault}}.Show)
	clitest.FitsATerminal(t, "rules explain", noMatchView{Others: []rule.Other{{Rule: long, RuleNumber: 123, Why: text}}}.Show)
	clitest.FitsATerminal(t, "rules parse", parseView{Rules: []parsedRule{{Rule: 123, Canonical: long, Plan: plan}}}.Show)
	regions := strings.Fields("cf-eu11 cf-eu12 cf-sa30 cf-jp30")
	requests := 123456
	clitest.FitsATerminal(t, "rules diff", rulesDiffView{Ledger: &ledgerShare{}, Differences: []ruleDifference{{
		Difference: rule.Difference{
			Plan: plan, Provider: "openstack", PlatformRegions: regions, HyperscalerRegions: regions,
			Before: rule.Way{Pool: "aws_cf-eu11+eu+shared"}, After: rule.Way{Pool: "aws_cf-eu11_eu-central-1+eu+shared"},
		}, Requests: &requests,
	}}}.Show)
}
