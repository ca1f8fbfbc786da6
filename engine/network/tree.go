package network

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// tree tracks the free addresses of IPv4. It is a buddy allocator: a binary tree whose nodes at depth d are
// the aligned blocks of prefix length d, in which two free halves are one free block. Each node stores the
// set of sizes of the free blocks in it, so that finding, taking and freeing a block walk down one path of at
// most 32 levels, however many blocks there are.
//
// Holds are counted at the node of the block, whether or not it is in a parent: a held block may lie in
// another one, extend beyond its parent, or stay when its parent is removed.
type tree struct {
	root  *branch
	spare *branch // free list of nodes, linked by their first half
}

// branch is a node. A nil node is an empty one.
type branch struct {
	halves [2]*branch
	free   uint64 // bit d: it has a free block of prefix length d
	held   int    // number of holds on exactly this block
	parent bool   // exactly this block is a parent
}

func newTree() *tree { return &tree{root: &branch{}} }

// bit returns the set that contains one size.
func bit(depth int) uint64 { return 1 << depth }

// address returns the block's first address as a number.
func address(p netip.Prefix) uint32 {
	a := p.Addr().As4()
	return binary.BigEndian.Uint32(a[:])
}

func prefixOf(address uint32, depth int) netip.Prefix {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], address)
	return netip.PrefixFrom(netip.AddrFrom4(a), depth)
}

// half returns 0 or 1: the half of a block of prefix length depth in which an address lies.
func half(address uint32, depth int) uint32 { return address >> (31 - depth) & 1 }

// upper returns the first address of the second half of a block of prefix length depth.
func upper(address uint32, depth int) uint32 { return address | 1<<(31-depth) }

// change applies f to the node of a block and updates all nodes above it. inside tells f whether the block
// lies in a parent.
func (t *tree) change(p netip.Prefix, f func(n *branch, inside bool)) {
	var way [33]*branch
	way[0] = t.root
	inside := t.root.parent
	var insides uint64
	for depth := range p.Bits() {
		if inside {
			insides |= bit(depth)
		}
		next := &way[depth].halves[half(address(p), depth)]
		if *next == nil {
			*next = t.sprout()
		}
		way[depth+1] = *next
		inside = inside || (*next).parent
	}
	f(way[p.Bits()], inside)
	for depth := p.Bits() - 1; depth >= 0; depth-- {
		n := way[depth]
		if c := way[depth+1]; c.held == 0 && !c.parent && c.halves == [2]*branch{} {
			n.halves[half(address(p), depth)] = nil
			t.cut(c)
		}
		n.sum(depth, insides&bit(depth) != 0)
	}
}

func (t *tree) sprout() *branch {
	n := t.spare
	if n == nil {
		return &branch{}
	}
	t.spare = n.halves[0]
	*n = branch{}
	return n
}

func (t *tree) cut(n *branch) { n.halves[0], t.spare = t.spare, n }

// sum derives the sizes of a node's free blocks from its halves.
func (n *branch) sum(depth int, inside bool) {
	switch {
	case n.held > 0:
		n.free = 0
	case n.halves != [2]*branch{}:
		n.free = n.halves[0].sizes(depth+1, inside) | n.halves[1].sizes(depth+1, inside)
	case inside:
		n.free = bit(depth)
	default:
		n.free = 0
	}
}

// sizes returns a bit for each size of a free block in a half. A nil half is one free block inside of
// a parent, and has none outside.
func (n *branch) sizes(depth int, inside bool) uint64 {
	switch {
	case n != nil:
		return n.free
	case inside:
		return bit(depth)
	default:
		return 0
	}
}

// hold marks a block as used. Holds are counted: each needs a drop.
func (t *tree) hold(p netip.Prefix) { t.count(p, 1) }

// drop undoes one hold.
func (t *tree) drop(p netip.Prefix) { t.count(p, -1) }

func (t *tree) count(p netip.Prefix, more int) {
	t.change(p, func(n *branch, inside bool) {
		n.held += more
		n.sum(p.Bits(), inside)
	})
}

// setParent makes a block a parent; with is = false the block is no parent any more. Parents must be
// disjoint. The time is proportional to the nodes in the block.
func (t *tree) setParent(p netip.Prefix, is bool) {
	t.change(p, func(n *branch, _ bool) {
		n.parent = is
		n.sumAll(p.Bits(), is)
	})
}

func (n *branch) sumAll(depth int, inside bool) {
	for _, c := range n.halves {
		if c != nil {
			c.sumAll(depth+1, inside)
		}
	}
	n.sum(depth, inside)
}

// within returns the node of a parent, nil if nothing of it can be free.
func (t *tree) within(p netip.Prefix) *branch {
	n := t.root
	for depth := range p.Bits() {
		if n.held > 0 {
			return nil
		}
		if n = n.halves[half(address(p), depth)]; n == nil {
			return nil
		}
	}
	return n
}

// find returns a free block of prefix length size in a parent: the beginning of the smallest free block with
// room for it, the lowest of several.
func (t *tree) find(parent netip.Prefix, size int) (netip.Prefix, bool) {
	n := t.within(parent)
	if n == nil {
		return netip.Prefix{}, false
	}
	fitting := n.free & (bit(size+1) - 1)
	if fitting == 0 {
		return netip.Prefix{}, false
	}
	smallest, at := bits.Len64(fitting)-1, address(parent)
	for depth := parent.Bits(); depth < smallest; depth++ {
		i := 0
		if n.halves[0].sizes(depth+1, true)&bit(smallest) == 0 {
			i, at = 1, upper(at, depth)
		}
		if n = n.halves[i]; n == nil {
			break // all of this half is the block
		}
	}
	return prefixOf(at, size), true
}

// largest returns the prefix length of the largest free block of a parent, -1 for none.
func (t *tree) largest(parent netip.Prefix) int {
	n := t.within(parent)
	if n == nil || n.free == 0 {
		return -1
	}
	return bits.TrailingZeros64(n.free)
}
