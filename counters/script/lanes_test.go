package script_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/script"
)

// TestLanesOfServersThatLeft: servers join and leave a cluster; the lanes of servers that are not
// asked any more are closed.
func TestLanesOfServersThatLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lanes script.Lanes
		defer lanes.End()
		stays, leaves, comes := server(t, "192.0.2.1:6379"), server(t, "192.0.2.2:6379"), server(t, "192.0.2.3:6379")
		lanes.To(stays)
		lanes.To(leaves)
		time.Sleep(2 * time.Minute)
		lanes.To(stays)
		if n := lanes.Servers(); n != 2 {
			t.Errorf("%d lanes before another server has come", n)
		}
		lanes.To(comes)
		if n := lanes.Servers(); n != 2 {
			t.Errorf("%d lanes to two servers", n)
		}
		lanes.To(leaves) // it is back
		if n := lanes.Servers(); n != 3 {
			t.Errorf("%d lanes to three servers", n)
		}
	})
}

// server returns a client of an unreachable server. Its address is an IP address: a synctest bubble
// must not be the first user of the resolver, whose semaphore would then belong to the bubble.
func server(t *testing.T, address string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
