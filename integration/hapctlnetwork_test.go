package integration_test

import (
	"net/netip"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/counters/connection"
)

// TestHapctlNetwork runs the story of network blocks that are looked at while a worker
// allots them.
//
//	foreign CIDR   makes a block another allocator's, as a worker does that finds it
func TestHapctlNetwork(t *testing.T) {
	t.Parallel()
	n := newNetworked(t, "", twoRules, accounts("aws", 2))
	n.work(daemon.Options{})
	store, err := counters.Open(connection.Options{URLs: []string{n.stack.Redis.URL()}}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	runHapctl(t, n.stack, "testdata/hapctl-network", map[string]func(*testscript.TestScript, bool, []string){
		"foreign": func(ts *testscript.TestScript, _ bool, args []string) {
			block, err := netip.ParsePrefix(args[0])
			ts.Check(err)
			ts.Check(blocks.New(store).Block(n.ctx, block))
		},
	})
}
