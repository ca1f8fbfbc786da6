package network

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/network"
)

// parents returns one parent, with these CIDRs.
func parents(cidrs ...string) []network.Parent {
	p := network.Parent{ID: "foo"}
	for _, c := range cidrs {
		p.CIDRs = append(p.CIDRs, netip.MustParsePrefix(c))
	}
	return []network.Parent{p}
}

// inRedis starts a Redis, and installs this number of blocks in it as a rebuild does.
func inRedis(tb testing.TB, count int) *blocks.Ranges {
	tb.Helper()
	ranges, ctx, token := blocks.New(counters.New(counterstest.Redis(tb), "bench")), context.Background(), fmt.Sprint("bench-", count)
	state := network.State{Parents: parents(parent)}
	at := netip.MustParsePrefix(parent).Addr().As4()
	for i := range count {
		n := i << (32 - size)
		cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{at[0], byte(n >> 16), byte(n >> 8), byte(n)}), size)
		state.Records = append(state.Records, network.Record{
			Cluster: fmt.Sprint("c", i), Requests: []string{"r"},
			Applied: network.Applied{Rule: "r", Blocks: []network.Block{{CIDR: cidr, Paths: []string{"/a"}}}},
		})
	}
	if mine, err := ranges.BeginRebuild(ctx, token, time.Now(), time.Hour); err != nil || !mine {
		tb.Fatal(mine, err)
	}
	if built, err := ranges.Install(ctx, token, state); err != nil || !built {
		tb.Fatal(built, err)
	}
	return ranges
}

// BenchmarkRedis measures beside 100, 10,000 and 100,000 blocks: a cluster that comes and goes, which is two
// scripts; a CIDR without blocks, added to the parent and removed; the CIDR with all blocks, removed from the parent
// and added again; the read for the gauges; and a read of the whole state, as a refresh needs it.
func BenchmarkRedis(b *testing.B) {
	rules := []network.Rule{{ID: "r", Injections: []network.Injection{{Paths: []string{"/a"}, Parents: []string{"foo"}, Size: size}}}}
	ctx := context.Background()
	for _, blocks := range []int{100, 10_000, 100_000} {
		ranges := inRedis(b, blocks)
		must := func(err error) {
			if err != nil {
				b.Fatal(err)
			}
		}
		for name, f := range map[string]func(){
			"acquire": func() {
				_, err := ranges.Acquire(ctx, "new", "request", rules)
				must(err)
				_, err = ranges.Release(ctx, "new")
				must(err)
			},
			"parent-aside": func() {
				must(ranges.SetParents(ctx, parents(parent, "172.16.0.0/12")))
				must(ranges.SetParents(ctx, parents(parent)))
			},
			"parent-in-use": func() {
				must(ranges.SetParents(ctx, parents("172.16.0.0/12")))
				must(ranges.SetParents(ctx, parents(parent)))
			},
			"room": func() {
				_, err := ranges.Room(ctx)
				must(err)
			},
			"state": func() {
				_, err := ranges.State(ctx)
				must(err)
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, blocks), func(b *testing.B) {
				for b.Loop() {
					f()
				}
			})
		}
	}
}
