package repair

import (
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
)

// TestTablesFitATerminal holds the tables of this package to a terminal's width.
func TestTablesFitATerminal(t *testing.T) {
	t.Parallel()
	drift := driftView{
		Kind: "ledger-redis-mismatch", Pool: "aws_cf-eu11+eu+shared", Binding: "sb-aws-000123", RuntimeID: "8f2b4c1e-77aa-4c9e-9d10-3f6d2b7c5a01", Remedy: "drain-idle",
		Message: "the ledger has it assigned to sb-aws-000123, Redis has it on another account of the pool and of the tenant",
	}
	pools := []string{"aws_cf-eu11+eu+shared", "azure_cf-eu20+eu+shared", "gcp_cf-sa30+shared", "openstack_eu-de-1+shared"}
	clitest.FitsATerminal(t, "counters verify", verification{Drifts: []driftView{drift}, Changed: []driftView{drift}, NotBuilt: pools}.Show)
}
