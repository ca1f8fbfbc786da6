package network

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/metal-stack/go-ipam"

	"github.com/hap-worker/hap-worker/engine/network"
)

// parent has room for all blocks of the benchmarks, which have this size.
const (
	parent = "10.0.0.0/8"
	size   = 28
)

// ours allots this number of blocks with engine/network, and returns a function that allots one more and frees it.
func ours(tb testing.TB, blocks int) func() {
	tb.Helper()
	s := network.NewSpace()
	s.SetParents([]network.Parent{{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix(parent)}}})
	rules := []network.Rule{{ID: "r", Injections: []network.Injection{{Paths: []string{"/a"}, Parents: []string{"foo"}, Size: size}}}}
	acquire := func(cluster string) {
		if _, err := s.Acquire(cluster, "request", rules); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range blocks {
		acquire(fmt.Sprint("c", i))
	}
	return func() {
		acquire("new")
		s.Release("new")
	}
}

// theirs does the same with go-ipam.
func theirs(tb testing.TB, blocks int) func() {
	tb.Helper()
	ctx := context.Background()
	i := ipam.New(ctx)
	whole, err := i.NewPrefix(ctx, parent)
	if err != nil {
		tb.Fatal(err)
	}
	acquire := func() *ipam.Prefix {
		p, err := i.AcquireChildPrefix(ctx, whole.Cidr, size)
		if err != nil {
			tb.Fatal(err)
		}
		return p
	}
	for range blocks {
		acquire()
	}
	return func() {
		if err := i.ReleaseChildPrefix(ctx, acquire()); err != nil {
			tb.Fatal(err)
		}
	}
}

// perRun returns the mean time of a call in nanoseconds, in the best of three runs: the machine may be doing
// something else in one of them.
func perRun(f func()) float64 {
	best := 0.0
	for range 3 {
		begun, calls := time.Now(), 0
		for time.Since(begun) < 300*time.Millisecond {
			f()
			calls++
		}
		if took := float64(time.Since(begun).Nanoseconds()) / float64(calls); best == 0 || took < best {
			best = took
		}
	}
	return best
}

// BenchmarkRatios compares in one run: the cost of a block at 100,000 blocks relative to 100, and go-ipam's
// cost relative to ours at 10,000.
func BenchmarkRatios(b *testing.B) {
	few, many, more := ours(b, 100), ours(b, 10_000), ours(b, 100_000)
	library := theirs(b, 10_000)
	for b.Loop() {
		at100, at10k, at100k := perRun(few), perRun(many), perRun(more)
		b.ReportMetric(at100k/at100, "growth")
		b.ReportMetric(perRun(library)/at10k, "times-go-ipam")
	}
}

// TestAcquire tests the functions that the benchmarks measure: each takes a block and frees it.
func TestAcquire(t *testing.T) {
	t.Parallel()
	ours(t, 100)()
	theirs(t, 100)()
}

// BenchmarkNetwork measures a block that is taken and freed, beside 100, 10,000 and 100,000 others. go-ipam is not
// filled with 100,000 blocks unless HAP_BENCH_LIBRARY_FULL is set: that alone takes many minutes.
func BenchmarkNetwork(b *testing.B) {
	for _, blocks := range []int{100, 10_000, 100_000} {
		for name, fill := range map[string]func(testing.TB, int) func(){"ours": ours, "go-ipam": theirs} {
			if name == "go-ipam" && blocks > 10_000 && os.Getenv("HAP_BENCH_LIBRARY_FULL") == "" {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", name, blocks), func(b *testing.B) {
				f := fill(b, blocks)
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
	}
}
