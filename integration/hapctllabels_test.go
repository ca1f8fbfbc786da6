package integration_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// TestHapctlLabels runs the story of accounts that get other keys of labels: no worker runs
// meanwhile.
//
//	label BINDING KEY VALUE   writes a label by hand
func TestHapctlLabels(t *testing.T) {
	t.Parallel()
	s := hapctlStack(t, stack.Options{Config: []byte("gardener: {labels: legacy}"), Accounts: []stack.Account{
		{Name: "aws-1", HyperscalerType: "aws", Labels: map[string]string{"tenantName": "ga-1"}},
		{Name: "aws-2", HyperscalerType: "aws", Labels: map[string]string{"dirty": "true", "tenantName": "ga-2"}},
		{Name: "gcp-1", HyperscalerType: "gcp"},
	}})
	runHapctl(t, s, "testdata/hapctl-labels", map[string]func(*testscript.TestScript, bool, []string){
		"label": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(label(s, args[0], args[1], args[2])) },
	})
}
