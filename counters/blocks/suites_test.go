package blocks_test

import (
	"fmt"
	"testing"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/leaktest"
	"github.com/hap-worker/hap-worker/engine/network/networktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The ranges in Redis pass the suite that the ranges in memory pass.
func TestRangesOnRedis(t *testing.T) {
	t.Parallel()
	client := counterstest.Redis(t)
	networktest.Rebuilds(t, blocks.New(counters.New(client, "rebuilds")))
	n := 0
	networktest.Histories(t, func() networktest.Allocator {
		n++
		return blocks.New(counters.New(client, fmt.Sprint("history", n)))
	})
}
