package counters_test

import (
	"fmt"
	"testing"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
	"github.com/hap-worker/hap-worker/engine/network/networktest"
)

// What the counters in memory promise beside the scenarios, those in Redis keep too.
func TestReadersOnRedis(t *testing.T) {
	t.Parallel()
	accounttest.Read(t, counterstest.NewMachine(counterstest.Redis(t), ""))
}

func TestRangesOnRedis(t *testing.T) {
	t.Parallel()
	client := counterstest.Redis(t)
	networktest.Rebuilds(t, counters.New(client, "rebuilds").Ranges())
	n := 0
	networktest.Histories(t, func() networktest.Allocator {
		n++
		return counters.New(client, fmt.Sprint("history", n)).Ranges()
	})
}
