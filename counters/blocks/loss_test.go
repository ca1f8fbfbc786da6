package blocks_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
)

var fooRules = []network.Rule{{ID: "r", Injections: []network.Injection{{Paths: []string{"/a"}, Parents: []string{"foo"}, Size: 28}}}}

func foo(cidr string) []network.Parent {
	return []network.Parent{{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix(cidr)}}}
}

func buildRanges(tb testing.TB, ranges *blocks.Ranges, token string, state network.State) {
	tb.Helper()
	ctx := context.Background()
	if mine, err := ranges.BeginRebuild(ctx, token, time.UnixMilli(0), 0); !mine || err != nil {
		tb.Fatal(mine, err)
	}
	if built, err := ranges.Install(ctx, token, state); !built || err != nil {
		tb.Fatal(built, err)
	}
}

// TestRangesAfterARestart: a server that comes back with its data decides nothing
// before it is rebuilt (rule 1), and then knows what the ledger knows.
func TestRangesAfterARestart(t *testing.T) {
	t.Parallel()
	server := counterstest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	store := counters.New(server.Client(t), "")
	ranges := blocks.New(store)
	if _, err := ranges.Acquire(t.Context(), "c1", "r1", fooRules); !errors.Is(err, account.ErrNotBuilt) {
		t.Fatalf("before it is built: %v", err)
	}
	buildRanges(t, ranges, "e1", network.State{Parents: foo("10.0.0.0/24")})
	first, err := ranges.Acquire(t.Context(), "c1", "r1", fooRules)
	if err != nil {
		t.Fatal(err)
	}
	if pools, err := store.Pools(t.Context()); len(pools) > 0 || err != nil {
		t.Errorf("the ranges are among the pools: %q, %v", pools, err)
	}
	server.Kill()
	server.Start(t)
	for name, call := range map[string]func() error{
		"acquire": func() error { _, err := ranges.Acquire(t.Context(), "c2", "r2", fooRules); return err },
		"release": func() error { _, err := ranges.Release(t.Context(), "c1"); return err },
		"return":  func() error { _, err := ranges.Return(t.Context(), "c1", "r1"); return err },
		"parents": func() error { return ranges.SetParents(t.Context(), foo("10.0.0.0/8")) },
		"block":   func() error { return ranges.Block(t.Context(), netip.MustParsePrefix("10.0.0.0/8")) },
		"state":   func() error { _, err := ranges.State(t.Context()); return err },
	} {
		if err := call(); !errors.Is(err, account.ErrNotBuilt) {
			t.Errorf("%s after a restart: %v", name, err)
		}
	}
	record := network.Record{Cluster: "c1", Requests: []string{"r1"}, Applied: first.Applied[0]}
	buildRanges(t, ranges, "e2", network.State{Parents: foo("10.0.0.0/24"), Records: []network.Record{record}})
	again, err := ranges.Acquire(t.Context(), "c1", "r1", fooRules)
	if err != nil || !reflect.DeepEqual(again.Applied, first.Applied) || len(again.New) > 0 {
		t.Errorf("after a rebuild it has %+v, %v", again, err)
	}
	other, err := ranges.Acquire(t.Context(), "c2", "r2", fooRules)
	if err != nil || other.Applied[0].Blocks[0].CIDR.String() != "10.0.0.16/28" {
		t.Errorf("the next has %+v, %v", other, err)
	}
}

// TestRangesRebuildOfTwo: of two rebuilds only the one whose token is current installs (rule 13).
func TestRangesRebuildOfTwo(t *testing.T) {
	t.Parallel()
	ranges := blocks.New(counters.New(counterstest.Redis(t), ""))
	begin := func(token string, at int64) bool {
		mine, err := ranges.BeginRebuild(t.Context(), token, time.UnixMilli(at), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return mine
	}
	install := func(token, cidr string) bool {
		built, err := ranges.Install(t.Context(), token, network.State{Parents: foo(cidr)})
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	if !begin("e1", 0) || begin("e2", 10) || !begin("e2", 5000) {
		t.Fatal("the lease is not kept")
	}
	if mine, err := ranges.RenewRebuild(t.Context(), "e1", time.UnixMilli(5001)); mine || err != nil {
		t.Fatalf("the first still has it: %v, %v", mine, err)
	}
	if install("e1", "10.1.0.0/16") || !install("e2", "10.2.0.0/16") || !install("e2", "10.2.0.0/16") || install("e3", "10.3.0.0/16") {
		t.Fatal("the wrong one was installed")
	}
	state, err := ranges.State(t.Context())
	if err != nil || !reflect.DeepEqual(state.Parents, foo("10.2.0.0/16")) {
		t.Fatalf("the parents are %v, %v", state.Parents, err)
	}
}

// BenchmarkRanges adds and removes one cluster beside so many blocks, in sequential calls on one
// connection.
func BenchmarkRanges(b *testing.B) {
	for _, count := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			space := network.NewSpace()
			space.SetParents(foo("10.0.0.0/8"))
			for i := range count {
				if _, err := space.Acquire(fmt.Sprint("c", i), "r", fooRules); err != nil {
					b.Fatal(err)
				}
			}
			ranges := blocks.New(counters.New(counterstest.Redis(b), ""))
			buildRanges(b, ranges, "e1", space.Snapshot())
			for b.Loop() {
				if _, err := ranges.Acquire(b.Context(), "new", "r", fooRules); err != nil {
					b.Fatal(err)
				}
				if _, err := ranges.Release(b.Context(), "new"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
