package containers_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/integration/containers"
)

// TestRedisLost replaces Redis by an empty one: the workers rebuild it from the
// ledger and Gardener.
func TestRedisLost(t *testing.T) {
	s := newScene(t, setting{accounts: gardener.SecretBindings})
	s.must(s.system.Redis.Lose(s.ctx))
	s.answers(40)
	s.holds()
}

// TestRedisClusterFailsOver kills two of the three primaries of a Redis Cluster in turn. Each is replaced by its
// replica, which may lack the last writes.
func TestRedisClusterFailsOver(t *testing.T) {
	t.Parallel()
	var cluster *containers.RedisCluster
	s := newScene(t, setting{redis: func(system *containers.System) containers.RedisPlace {
		var err error
		if cluster, err = system.NewRedisCluster(t.Context()); err != nil {
			t.Fatal(err)
		}
		return removed(t, cluster)
	}})
	for primary := range 2 {
		s.must(cluster.FailOver(s.ctx, primary))
		t.Logf("the replica of primary %d serves", primary+1)
		s.answers(40)
		s.must(cluster.Restart(s.ctx, primary))
	}
	s.holds()
}
