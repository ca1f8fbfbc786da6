package counters_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestScenariosOnMiniredis(t *testing.T) {
	t.Parallel()
	counterstest.Run(t, counterstest.Mini(t))
}

func TestScenariosOnRedis(t *testing.T) {
	t.Parallel()
	counterstest.Run(t, counterstest.Redis(t))
}

func TestStoreEqualsModelOnMiniredis(t *testing.T) {
	t.Parallel()
	counterstest.Compare(t, counterstest.Mini(t))
}

func TestStoreEqualsModelOnRedis(t *testing.T) {
	t.Parallel()
	counterstest.Compare(t, counterstest.Redis(t))
}

// TestScenariosOnCluster fails for a script whose keys are not all on one slot.
func TestScenariosOnCluster(t *testing.T) {
	t.Parallel()
	counterstest.Run(t, counterstest.Cluster(t))
}
