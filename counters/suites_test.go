package counters_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// The counters in Redis pass the suites that the counters in memory pass, besides the scenarios.
func TestReadersOnRedis(t *testing.T) {
	t.Parallel()
	accounttest.Read(t, counterstest.NewMachine(counterstest.Redis(t), ""))
}
