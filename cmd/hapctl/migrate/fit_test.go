package migrate

import (
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/ledger/shadows"
)

// TestTablesFitATerminal holds the tables of this package to a terminal's width.
func TestTablesFitATerminal(t *testing.T) {
	t.Parallel()
	const (
		id      = "8f2b4c1e-77aa-4c9e-9d10-3f6d2b7c5a01"
		binding = "sb-aws-000123"
		text    = "the label names a tenant whose Shoots are on another account, and the account has Shoots of another tenant"
	)
	clitest.FitsATerminal(t, "migrate plan", planView{
		Bindings: []plannedBinding{{
			Name: binding, Pool: "aws_cf-eu11+eu+shared", Tenant: id, State: "in-use", Shoots: 123, Why: text, Contradictions: []string{text}, Notes: []string{text},
			Selections: []rule.Selection{{Plan: "aws"}, {Plan: "build-runtime-aws"}, {Plan: "preview"}, {Plan: "sap-converged-cloud"}},
		}},
		Shoots: []shootProblem{{Shoot: "c-1234567", Tenant: id, Binding: binding, BindingTenant: id, Kind: "other-tenant", Message: text}},
	}.Show)
	clitest.FitsATerminal(t, "migrate labels", labelsView{Bindings: []renamedBinding{{
		Name: binding, Conflict: text, Labels: []gardener.Renamed{{From: "tenantName", To: "hap.example.org/tenantName", Value: id}},
	}}}.Show)
	clitest.FitsATerminal(t, "migrate compare", comparedList{Comparisons: []comparedView{{
		RuntimeID: id, Tenant: id, Plan: "build-runtime-aws", Result: shadows.ComparisonResult("other-account"), Message: text,
		Shadow: shadowChoice{Status: events.StatusAssigned, Binding: binding}, KEB: &shadows.KEBChoice{Binding: binding},
	}}, Summary: map[shadows.ComparisonResult]int{}}.Show)
}
