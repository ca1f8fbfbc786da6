package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/policy"
)

// TestTablesFitATerminal holds the tables of this package to a terminal's width.
func TestTablesFitATerminal(t *testing.T) {
	t.Parallel()
	const (
		path = "cap.implementation.database.postgresql.high-availability.install:0.1.0"
		text = "the TypeInstance cap.type.hyperscaler.account of the requirement is not there, and no alternative takes another one"
	)
	now := time.Now()
	clitest.FitsATerminal(t, "policy show", policyView{
		At: "policy.yaml", Errors: []document.Fault{{Line: 1234, Path: "rules[12].oneOf[3].implementationConstraints", Kind: "invalid", Message: text}},
		Workers: []policyWorker{{Worker: "hap-worker-7d9c5b6f8-x2x7k", Digest: strings.Repeat("0123456789abcdef", 4), Since: &now, Seen: &now}},
	}.Show)
	clitest.FitsATerminal(t, "policy resolve", (&refusedView{rejected: []policy.Rejected{{Implementation: policy.Ref{Path: path, Revision: "0.1.0"}, Failed: []string{text}}}}).Show)
	clitest.FitsATerminal(t, "policy resolve, injected", (&resolvedView{decided: policy.Decision{Picked: &policy.Implementation{}}, Inject: []policy.Injected{{Name: path, ID: "8f2b4c1e-77aa-4c9e-9d10-3f6d2b7c5a01"}}}).Show)
	choice := func(n string) policy.Choice { return policy.Choice{Picked: path + n} }
	clitest.FitsATerminal(t, "policy diff", policyDiffView{
		Difference: policy.Difference{Added: []string{strings.Repeat(path, 2)}}, Interfaces: []policy.Changed{{Interface: path, Before: choice("1"), After: choice("2")}},
	}.Show)
}
