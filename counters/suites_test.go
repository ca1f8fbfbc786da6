package counters_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// What the counters in memory promise beside the scenarios, those in Redis keep too.
func TestReadersOnRedis(t *testing.T) {
	t.Parallel()
	accounttest.Read(t, counterstest.NewMachine(counterstest.Redis(t), ""))
}
