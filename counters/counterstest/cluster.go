package counterstest

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster starts a Redis Cluster of one node and returns a client of it. Like any cluster, it refuses
// a script whose keys are not on one slot.
func Cluster(t testing.TB) *redis.ClusterClient {
	t.Helper()
	port, bus := freePort(t), freePort(t)
	node := StartRedis(t, "--port", port, "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-port", bus)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	admin := node.Client(t)
	if err := admin.ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(admin.ClusterInfo(ctx).Val(), "cluster_state:ok") {
		select {
		case <-ctx.Done():
			t.Fatal("the cluster does not come up")
		case <-tick.C:
		}
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:" + port}, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func freePort(t testing.TB) string {
	t.Helper()
	// Not a port that the kernel assigned for port 0: another process might take it before the server
	// listens.
	for range 100 {
		port := strconv.Itoa(10000 + rand.IntN(10000))
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port was found in 100 attempts")
	return ""
}
