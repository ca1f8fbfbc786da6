package suggest

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
)

// ring has the unclaimed bindings of a pool that may be claimed, in the order of their
// names' hashes. The search for a tenant begins at the tenant's hash and goes round. So
// most tenants begin at different bindings, and all workers begin at the same one for a
// tenant, if their caches are equal.
// Why this and not a rendezvous hash: docs/adr/0002-claim-order-on-a-ring.md.
type ring []spot

type spot struct {
	hash    uint64
	binding *engine.Binding
}

func (r *ring) insert(b *engine.Binding) {
	s := spot{Hash(b.Name), b}
	i, _ := slices.BinarySearchFunc(*r, s, bySpot)
	*r = slices.Insert(*r, i, s)
}

// remove removes b, if it is there.
func (r *ring) remove(b *engine.Binding) {
	if i, found := slices.BinarySearchFunc(*r, spot{Hash(b.Name), b}, bySpot); found {
		*r = slices.Delete(*r, i, i+1)
	}
}

// from yields up to n bindings: the first one at or after the tenant's place on the ring, then those that
// follow, around the end.
func (r ring) from(tenant string, n int) iter.Seq[*engine.Binding] {
	return func(yield func(*engine.Binding) bool) {
		start, _ := slices.BinarySearchFunc(r, Hash(tenant), func(s spot, h uint64) int { return cmp.Compare(s.hash, h) })
		for i := range min(n, len(r)) {
			if !yield(r[(start+i)%len(r)].binding) {
				return
			}
		}
	}
}

// bySpot orders by hash, then by name, so that every worker has the same order even if hashes are equal.
func bySpot(a, b spot) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), strings.Compare(a.binding.Name, b.binding.Name))
}

// Hash returns the place of a name on the ring: evenly spread over 64 bits, and equal in every process.
// FNV-1a alone leaves names that differ in their last character, such as names of accounts, side by side; the
// last three lines (the finalizer of MurmurHash3) spread them.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
