package network_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/hap-worker/hap-worker/engine/network"
)

// BenchmarkAcquire allots blocks to one cluster and frees them, among a number of other blocks.
func BenchmarkAcquire(b *testing.B) {
	for _, blocks := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(blocks), func(b *testing.B) {
			s := network.NewSpace()
			s.SetParents([]network.Parent{{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
			rules := []network.Rule{{ID: "r", Injections: []network.Injection{{Paths: []string{"/a"}, Parents: []string{"foo"}, Size: 28}}}}
			for i := range blocks {
				if _, err := s.Acquire(fmt.Sprint("c", i), "r", rules); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Acquire("new", "r", rules); err != nil {
					b.Fatal(err)
				}
				s.Release("new")
			}
		})
	}
}
