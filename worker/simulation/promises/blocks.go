package promises

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// Block is a network block of a runtime.
type Block struct {
	Runtime, Rule string
	CIDR          netip.Prefix
}

// String names block, runtime and rule.
func (b Block) String() string { return fmt.Sprintf("%s of %s by rule %s", b.CIDR, b.Runtime, b.Rule) }

// Given returns the blocks of a reply.
func Given(r events.Reply) (all []Block) {
	for _, n := range r.Network {
		if cidr, err := netip.ParsePrefix(n.CIDR); err == nil {
			all = append(all, Block{r.RuntimeID, n.Rule, cidr})
		}
	}
	return all
}

// Held returns the blocks in Redis.
func Held(state network.State) (all []Block) {
	for _, r := range state.Records {
		for _, b := range r.Blocks {
			all = append(all, Block{r.Cluster, r.Rule, b.CIDR})
		}
	}
	return all
}

// Blocks compares the network blocks in Redis with those of the assignments in force (I9), except those of excused
// runtimes. A runtime in Passed may have more blocks in Redis.
func (f Facts) Blocks(bad Report) {
	excused := func(b Block) bool { return f.Excused[b.Runtime] }
	passed := func(b Block) bool { return excused(b) || f.Passed[b.Runtime] && !slices.Contains(f.Given, b) }
	Same("Redis", slices.DeleteFunc(slices.Clone(f.Held), passed), slices.DeleteFunc(slices.Clone(f.Given), excused), bad)
}

// Same reports the blocks that a place should have and has not, and those that it has and should not have (I9).
// where names the place.
func Same(where string, is, should []Block, bad Report) {
	for _, b := range should {
		if !slices.Contains(is, b) {
			bad("I9 NoOverlap", "%v is in use, %s does not say so", b, where)
		}
	}
	for _, b := range is {
		if !slices.Contains(should, b) {
			bad("I9 NoOverlap", "%v is in %s, and no cluster has it", b, where)
		}
	}
}
