package policy

import (
	"math/bits"
	"slices"
)

// set is a set of implementations by their numbers: a sorted list if it is sparse, one bit for each
// implementation of the catalog if it is dense. At the threshold both forms take the same memory. A sparse set has
// at most one member for every 32 implementations of the catalog, and a dense one has one word for every 64.
type set struct {
	members []uint32
	words   []uint64
}

// add expects numbers in ascending order, and ignores a repeated one.
func (s *set) add(n uint32) {
	if last := len(s.members) - 1; last < 0 || s.members[last] != n {
		s.members = append(s.members, n)
	}
}

// seal chooses the smaller form for a catalog of total implementations.
func (s *set) seal(total int) {
	if len(s.members)*32 <= total {
		s.members = slices.Clip(s.members)
		return
	}
	s.words = make([]uint64, (total+63)/64)
	for _, n := range s.members {
		s.words[n/64] |= 1 << (n % 64)
	}
	s.members = nil
}

func (s *set) has(n uint32) bool {
	if s.words != nil {
		return s.words[n/64]&(1<<(n%64)) != 0
	}
	_, found := slices.BinarySearch(s.members, n)
	return found
}

// common appends the numbers that are in all sets, in ascending order. It needs at least one set.
func common(found []uint32, sets ...*set) []uint32 {
	least := sparsest(sets)
	if least == nil {
		return commonBits(found, sets)
	}
	for _, n := range least.members {
		if inAll(n, sets) {
			found = append(found, n)
		}
	}
	return found
}

// sparsest returns the sparse set with the fewest members, nil if every set is dense.
func sparsest(sets []*set) *set {
	var least *set
	for _, s := range sets {
		if s.words == nil && (least == nil || len(s.members) < len(least.members)) {
			least = s
		}
	}
	return least
}

func inAll(n uint32, sets []*set) bool {
	for _, s := range sets {
		if !s.has(n) {
			return false
		}
	}
	return true
}

func commonBits(found []uint32, sets []*set) []uint32 {
	for i, word := range sets[0].words {
		for _, s := range sets[1:] {
			word &= s.words[i]
		}
		for ; word != 0; word &= word - 1 {
			found = append(found, uint32(i*64+bits.TrailingZeros64(word)))
		}
	}
	return found
}
