package containers_test

import (
	"context"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/integration/containers"
)

// TestTwoMastersBehindSentinels isolates the Redis master with one worker, while the sentinels promote a
// replica for the other worker. Then it does so with the sides exchanged, and with servers that refuse writes
// without a replica.
func TestTwoMastersBehindSentinels(t *testing.T) {
	t.Parallel()
	var sentinels *containers.Sentinels
	s := newScene(t, setting{redis: func(system *containers.System) (at containers.RedisPlace) {
		var err error
		if sentinels, err = system.NewSentinels(t.Context()); err != nil {
			t.Fatal(err)
		}
		return removed(t, sentinels)
	}})
	s.twoMasters(sentinels, 0)
	s.must(sentinels.NeedReplicas(s.ctx, 1))
	s.twoMasters(sentinels, 1)
	s.holds()
}

// TestTwoMastersOfACluster isolates a primary of a Redis Cluster with one worker, while its replica serves
// the other one. Then it does so with the sides exchanged.
func TestTwoMastersOfACluster(t *testing.T) {
	t.Parallel()
	var cluster *containers.RedisCluster
	s := newScene(t, setting{redis: func(system *containers.System) containers.RedisPlace {
		var err error
		if cluster, err = system.NewRedisCluster(t.Context()); err != nil {
			t.Fatal(err)
		}
		return removed(t, cluster)
	}})
	s.twoMasters(cluster, 0)
	s.twoMasters(cluster, 1)
	s.holds()
}

// removed returns the addresses of a Redis, and removes that Redis at the end of the test.
func removed(t *testing.T, redis containers.Replicated) containers.RedisPlace {
	t.Helper()
	t.Cleanup(func() {
		if err := redis.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return redis.Place()
}

// twoMasters parts the master and one worker from the rest until another node is the master and 20 requests are
// answered. Then it heals the partition, and waits until the workers are ready and 20 more are answered.
func (s *scene) twoMasters(redis containers.Replicated, worker int) {
	s.t.Helper()
	master, err := redis.Master(s.ctx)
	s.must(err)
	begin := time.Now()
	split, err := s.Leave(s.ctx, redis, master, worker)
	s.must(err)
	now, err := s.Promoted(s.ctx, redis, master)
	s.must(err)
	s.t.Logf("server %d is left to worker %d, and server %d is the master after %.1fs", master+1, worker+1, now+1, time.Since(begin).Seconds())
	s.answers(20)
	s.t.Logf("parted: no answer for %.1fs of %.1fs", s.load.Silence(begin).Seconds(), time.Since(begin).Seconds())

	begin = time.Now()
	s.must(split.Heal(s.ctx))
	s.must(s.Follows(s.ctx, redis, master))
	s.t.Logf("server %d follows the master %.1fs after it was healed", master+1, time.Since(begin).Seconds())
	s.must(s.AwaitReady(s.ctx))
	s.answers(20)
	s.t.Logf("healed: both workers are ready; no answer for %.1fs of %.1fs", s.load.Silence(begin).Seconds(), time.Since(begin).Seconds())
}
