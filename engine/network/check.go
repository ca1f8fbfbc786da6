package network

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"
)

// owned is a block of a rule of a cluster.
type owned struct {
	by    *Record
	block *Block
}

// Check tests invariant I9, NoOverlap: two blocks are disjoint unless one was sliced from the other, which is
// possible only within one rule of one cluster. It returns a line for each block that breaks it.
func (s *Space) Check() []string {
	return overlapping(func(yield func(*Record) bool) {
		for _, records := range s.clusters {
			for _, r := range records {
				if !yield(r) {
					return
				}
			}
		}
	})
}

// overlapping returns the lines of Check for records. There may be a million, so it keeps no copy of them.
func overlapping(records iter.Seq[*Record]) []string {
	var all []owned
	for r := range records {
		for i := range r.Blocks {
			all = append(all, owned{r, &r.Blocks[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b owned) int { // stable: of equal blocks the parent stays first
		return cmp.Or(a.block.CIDR.Addr().Compare(b.block.CIDR.Addr()), cmp.Compare(a.block.CIDR.Bits(), b.block.CIDR.Bits()),
			cmp.Compare(a.by.Cluster, b.by.Cluster), cmp.Compare(a.by.Rule, b.by.Rule))
	})
	var faults []string
	var around []owned // the blocks that the present one lies in, outermost first
	for _, b := range all {
		for len(around) > 0 && !covers(around[len(around)-1].block.CIDR, b.block.CIDR) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 && !around[len(around)-1].parentOf(b) {
			faults = append(faults, fmt.Sprintf("%s overlaps %s", b, around[len(around)-1]))
		}
		around = append(around, b)
	}
	return faults
}

// Conflicts returns a line for each block that is held twice: the lines of Check, and blocks of clusters that
// overlap a block of another allocator.
func (s State) Conflicts() []string {
	found := overlapping(func(yield func(*Record) bool) {
		for i := range s.Records {
			if !yield(&s.Records[i]) {
				return
			}
		}
	})
	overlap := Overlaps(s.Foreign)
	for _, r := range s.Records {
		for _, b := range r.Blocks {
			if with, overlaps := overlap(b.CIDR); overlaps {
				found = append(found, fmt.Sprintf("%s of cluster %s, rule %s, overlaps %s of another allocator", b.CIDR, r.Cluster, r.Rule, with))
			}
		}
	}
	return found
}

// Lasting returns those of the conflicts, found in a state that was read earlier, that s has too. A state is read page by
// page: a block that went from one cluster to another meanwhile is found twice.
func (s State) Lasting(conflicts []string) []string {
	still := s.Conflicts()
	return slices.DeleteFunc(slices.Clone(conflicts), func(c string) bool { return !slices.Contains(still, c) })
}

func (o owned) String() string {
	return fmt.Sprintf("%s of cluster %s, rule %s", o.block.CIDR, o.by.Cluster, o.by.Rule)
}

func (o owned) parentOf(b owned) bool {
	return o.by.Cluster == b.by.Cluster && o.by.Rule == b.by.Rule && o.block.ID != ""
}

// Largest returns the largest free block of each parent, by id.
func (s *Space) Largest() []Left {
	var all []Left
	for _, p := range s.parents {
		source := supply{id: p.ID, tree: s.tree, cidrs: p.CIDRs}
		all = append(all, Left{Parent: p.ID, Largest: source.largest()})
	}
	return all
}

// Holds reports whether any address of a block is held, by a cluster or by another allocator.
func (s *Space) Holds(p netip.Prefix) bool {
	n := s.tree.root
	for depth := range p.Bits() {
		if n.held > 0 {
			return true
		}
		if n = n.halves[half(address(p), depth)]; n == nil {
			return false
		}
	}
	return n.holds()
}

func (n *branch) holds() bool {
	return n != nil && (n.held > 0 || n.halves[0].holds() || n.halves[1].holds())
}

// Free returns the free space of all parents as the fewest possible blocks, by address.
func (s *Space) Free() []netip.Prefix {
	var free []netip.Prefix
	s.tree.root.walk(0, 0, false, func(p netip.Prefix, n *branch, inside bool) {
		if inside && (n == nil || n.free == bit(p.Bits())) {
			free = append(free, p)
		}
	})
	return free
}

// Held returns each held block with the number of its holds. Clusters hold the blocks that were sliced from a
// parent of the configuration; other allocators hold theirs.
func (s *Space) Held() iter.Seq2[netip.Prefix, int] {
	return func(yield func(netip.Prefix, int) bool) {
		s.tree.root.each(0, 0, func(p netip.Prefix, n *branch) bool { return n.held == 0 || yield(p, n.held) })
	}
}

// walk visits blocks in the order of addresses. It does not descend into held blocks, nor into blocks without
// halves, which are free or outside of every parent. A missing half is visited as nil.
func (n *branch) walk(address uint32, depth int, inside bool, visit func(netip.Prefix, *branch, bool)) {
	if n != nil {
		inside = inside || n.parent
	}
	visit(prefixOf(address, depth), n, inside)
	if n == nil || n.held > 0 || n.halves == [2]*branch{} {
		return
	}
	n.halves[0].walk(address, depth+1, inside, visit)
	n.halves[1].walk(upper(address, depth), depth+1, inside, visit)
}

// each visits all blocks in the order of addresses until visit returns false, and reports whether none did.
func (n *branch) each(address uint32, depth int, visit func(netip.Prefix, *branch) bool) bool {
	if n == nil {
		return true
	}
	return visit(prefixOf(address, depth), n) && (depth == 32 ||
		n.halves[0].each(address, depth+1, visit) && n.halves[1].each(upper(address, depth), depth+1, visit))
}

// Overlaps returns a function that finds a block among blocks that overlaps its argument. It reports whether
// there is one.
func Overlaps(blocks []netip.Prefix) func(netip.Prefix) (netip.Prefix, bool) {
	sorted := slices.SortedFunc(slices.Values(blocks), netip.Prefix.Compare)
	there := map[netip.Prefix]bool{}
	for _, b := range blocks {
		there[b] = true
	}
	return func(p netip.Prefix) (netip.Prefix, bool) {
		for bits := range p.Bits() {
			if around := netip.PrefixFrom(p.Addr(), bits).Masked(); there[around] {
				return around, true
			}
		}
		i, _ := slices.BinarySearchFunc(sorted, p.Addr(), func(b netip.Prefix, a netip.Addr) int { return b.Addr().Compare(a) })
		if i < len(sorted) && p.Contains(sorted[i].Addr()) {
			return sorted[i], true
		}
		return netip.Prefix{}, false
	}
}
