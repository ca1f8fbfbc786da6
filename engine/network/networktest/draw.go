// Package networktest draws histories of network ranges: all inside 10.0.0.0/24, so
// that clusters, parents and other allocators get into each other's way at once.
package networktest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine/network"
)

// Cluster draws the name of one of a few clusters.
func Cluster() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"ns/c1", "ns/c2", "ns/c3", "other/c1"})
}

// Request draws the id of one of a few requests.
func Request() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"r1", "r1#a", "r1#a#1", "r1#b", "r2", "r3"})
}

// block draws an aligned block of a prefix length from low to 32.
func block(low int) *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		bits := rapid.IntRange(low, 32).Draw(t, "bits")
		address := netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "address")})
		return netip.PrefixFrom(address, bits).Masked()
	})
}

// Foreign draws a block of another allocator.
func Foreign() *rapid.Generator[netip.Prefix] {
	return rapid.OneOf(block(31), block(30), block(29), block(25)) // mostly small: something is to fit beside them
}

// ids are the ids of all parents. Each may be drawn without CIDRs.
var ids = []string{"bar", "foo"}

// Parents draws disjoint parents, by id.
func Parents() *rapid.Generator[[]network.Parent] {
	return rapid.Custom(func(t *rapid.T) []network.Parent {
		if rapid.Bool().Draw(t, "roomy") {
			return roomy()
		}
		var used []netip.Prefix
		parents := make([]network.Parent, len(ids))
		for i, id := range ids {
			parents[i] = network.Parent{ID: id}
			for _, p := range rapid.SliceOfN(block(24), 0, 3).Draw(t, id) {
				if !slices.ContainsFunc(used, p.Overlaps) {
					used = append(used, p)
					parents[i].CIDRs = append(parents[i].CIDRs, p)
				}
			}
		}
		slices.SortFunc(parents, func(a, b network.Parent) int { return cmp.Compare(a.ID, b.ID) })
		return parents
	})
}

func roomy() []network.Parent {
	return []network.Parent{
		{ID: "bar", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.128/26"), netip.MustParsePrefix("10.0.0.64/26")}},
		{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.192/26"), netip.MustParsePrefix("10.0.0.0/26")}},
	}
}

// Rules draws rules for the parents of Parents. A rule may differ from an earlier one with the same id.
func Rules() *rapid.Generator[[]network.Rule] {
	return rapid.SliceOfNDistinct(rapid.Custom(rule), 0, 3, func(r network.Rule) string { return r.ID })
}

func rule(t *rapid.T) network.Rule {
	r := network.Rule{ID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "rule")}
	known := slices.Clone(ids)
	for i := range rapid.IntRange(1, 6).Draw(t, "injections") {
		in := network.Injection{
			Size:    rapid.OneOf(rapid.IntRange(28, 32), rapid.IntRange(26, 28), rapid.IntRange(24, 32)).Draw(t, "size"),
			Parents: rapid.SliceOfN(rapid.SampledFrom(known), 0, 3).Draw(t, "parents"),
			Paths:   []string{fmt.Sprintf("/%s/%d", r.ID, i)},
		}
		if len(known) > len(ids) && rapid.Bool().Draw(t, "slices") { // what fits into a block of the rule
			in.Parents, in.Size = slices.Clone(known[len(ids):]), rapid.IntRange(29, 32).Draw(t, "small size")
		}
		if rapid.IntRange(0, 9).Draw(t, "shared path") == 0 {
			in.Paths = append(in.Paths, "/shared")
		}
		if rapid.Bool().Draw(t, "has an id") {
			in.ID = fmt.Sprintf("local%d", i)
			known = append(known, in.ID)
		}
		r.Injections = append(r.Injections, in)
	}
	return r
}
