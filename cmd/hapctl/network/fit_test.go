package network

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
)

// TestTablesFitATerminal holds the tables of this package to a terminal's width.
func TestTablesFitATerminal(t *testing.T) {
	t.Parallel()
	block := allottedBlock{
		RuntimeID: "8f2b4c1e-77aa-4c9e-9d10-3f6d2b7c5a01", Rule: strings.Repeat("rule-of-a-landscape-", 2), ID: "injection-of-the-pods-network",
		CIDR: netip.MustParsePrefix("100.100.100.128/25"), Paths: []string{"/spec/networking/pods"},
	}
	clitest.FitsATerminal(t, "network list", allottedView{Blocks: []allottedBlock{block}, Foreign: []netip.Prefix{block.CIDR}}.Show)
	clitest.FitsATerminal(t, "network free", freeView{Parents: []freeParent{{
		Parent: strings.Repeat("parent-", 8), CIDRs: []netip.Prefix{block.CIDR, block.CIDR, block.CIDR, block.CIDR}, Addresses: 1 << 24, Free: 1 << 23, Largest: "/24", Blocks: new(int64(123456)),
	}}}.Show)
}
