package blocks_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/network"
)

// TestUnreadableRecordsHoldNoBlocks: Redis keeps what a script wrote before an error. So a script must
// read everything before it writes: otherwise each repeat on an unreadable record would hold more
// blocks, which no record names.
func TestUnreadableRecordsHoldNoBlocks(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]*redis.Client{"redis": counterstest.Redis(t), "miniredis": counterstest.Mini(t)} {
		for what, damage := range map[string]func(pipe redis.Pipeliner, key func(string) string){
			"a parent without its length": func(pipe redis.Pipeliner, key func(string) string) {
				pipe.HSet(t.Context(), key("p"), "json", `[["hall",167772160,24],["odd",1]]`)
			},
			"an index of another type": func(pipe redis.Pipeliner, key func(string) string) {
				pipe.Del(t.Context(), key("i"))
				pipe.Set(t.Context(), key("i"), "x", 0)
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				prefix := "unreadable-" + what[:4]
				ranges := blocks.New(counters.New(client, prefix))
				key := func(name string) string { return prefix + ":{net:}:" + name }
				hall := network.Parent{ID: "hall", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}
				if mine, err := ranges.BeginRebuild(t.Context(), "e1", time.UnixMilli(0), 0); !mine || err != nil {
					t.Fatal(mine, err)
				}
				if built, err := ranges.Install(t.Context(), "e1", network.State{Parents: []network.Parent{hall}}); !built || err != nil {
					t.Fatal(built, err)
				}
				if _, err := client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error { damage(pipe, key); return nil }); err != nil {
					t.Fatal(err)
				}
				rule := network.Rule{ID: "pods", Injections: []network.Injection{{Paths: []string{"/spec/pods"}, Parents: []string{"hall"}, Size: 28}}}
				_, acquired := ranges.Acquire(t.Context(), "ns/c1", "p-1", []network.Rule{rule})
				blocked := ranges.Block(t.Context(), netip.MustParsePrefix("10.0.0.64/28"))
				_, restored := ranges.Restore(t.Context(), network.Record{Cluster: "ns/c2", Applied: network.Applied{
					Rule: "pods", Blocks: []network.Block{{CIDR: netip.MustParsePrefix("10.0.0.32/28"), Paths: []string{"/spec/pods"}}},
				}})
				if acquired == nil || blocked == nil || restored == nil {
					t.Errorf("acquired: %v, blocked: %v, restored: %v", acquired, blocked, restored)
				}
				for _, of := range []string{"h", "c", "x"} {
					if left := client.HGetAll(t.Context(), key(of)).Val(); len(left) > 0 {
						t.Errorf("%s has %v", of, left)
					}
				}
			})
		}
	}
}
