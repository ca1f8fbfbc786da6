package network

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Block is the range that an injection got.
type Block struct {
	ID    string // of the injection, "" for none
	CIDR  netip.Prefix
	Paths []string // JSON pointers
}

// Applied is a rule of a cluster, with its blocks in the order of its injections.
type Applied struct {
	Rule   string
	Blocks []Block
}

// Record is a rule of a cluster, with the requests that rely on its blocks.
type Record struct {
	Cluster  string
	Requests []string
	Applied
}

// Space is the state of all ranges: the free space of the parents, and the blocks of each cluster. It is the
// model of the scripts in Redis: both make the same decisions.
type Space struct {
	tree     *tree
	parents  []Parent // by id
	clusters map[string][]*Record
	foreign  map[netip.Prefix]bool
}

// NewSpace returns a Space without parents and without blocks.
func NewSpace() *Space {
	return &Space{tree: newTree(), clusters: map[string][]*Record{}, foreign: map[netip.Prefix]bool{}}
}

// SetParents replaces the parents for the next Acquire. Blocks in use stay held, also outside of every
// parent.
func (s *Space) SetParents(parents []Parent) {
	before, after := prefixes(s.parents), prefixes(parents)
	for p := range before {
		if !after[p] {
			s.tree.setParent(p, false)
		}
	}
	for p := range after {
		if !before[p] {
			s.tree.setParent(p, true)
		}
	}
	s.parents = slices.SortedFunc(slices.Values(parents), func(a, b Parent) int { return cmp.Compare(a.ID, b.ID) })
}

func prefixes(parents []Parent) map[netip.Prefix]bool {
	set := map[netip.Prefix]bool{}
	for _, p := range parents {
		for _, c := range p.CIDRs {
			set[c] = true
		}
	}
	return set
}

// Release frees all blocks of a cluster, and returns the rules that it had; nil for none.
func (s *Space) Release(cluster string) []Applied {
	applied := s.Applied(cluster)
	for _, r := range s.clusters[cluster] {
		s.giveBack(r)
	}
	delete(s.clusters, cluster)
	return applied
}

// Attempt returns the id of one attempt at a request: of a handler, or of a part of a handler's work. Each
// attempt relies on blocks separately, so that one attempt does not free a block that another is about to
// answer with. Neither a request's id nor a handler's name contains '#'.
func Attempt(request, handler string) string { return request + "#" + handler }

// Returned is the result of Return.
type Returned struct {
	Gone []Applied // rules whose blocks are free again, since no other request relies on them
	Kept []string  // for one attempt: the request itself and the other attempts at it that rely on a rule, oldest first
}

// relies reports whether by is the request or an attempt at it.
func relies(by, request string) bool {
	return by == request || strings.HasPrefix(by, request+"#")
}

// Return removes an attempt, or a request with all its attempts, from the requests that rely on the
// cluster's blocks. It is for one that was not answered with these blocks: it waits, was refused or came too
// late. A rule on which only it relied is removed, and its blocks become free.
func (s *Space) Return(cluster, request string) Returned {
	var returned Returned
	whole, _, _ := strings.Cut(request, "#")
	kept := slices.DeleteFunc(s.clusters[cluster], func(r *Record) bool {
		before := len(r.Requests)
		r.Requests = slices.DeleteFunc(r.Requests, func(by string) bool { return relies(by, request) })
		for _, by := range r.Requests {
			if relies(by, whole) && !slices.Contains(returned.Kept, by) {
				returned.Kept = append(returned.Kept, by)
			}
		}
		if len(r.Requests) == before || len(r.Requests) > 0 {
			return false
		}
		s.giveBack(r)
		returned.Gone = append(returned.Gone, r.Applied)
		return true
	})
	s.keep(cluster, kept)
	return returned
}

func (s *Space) keep(cluster string, records []*Record) {
	if len(records) == 0 {
		delete(s.clusters, cluster)
		return
	}
	s.clusters[cluster] = records
}

func (s *Space) giveBack(r *Record) {
	for _, p := range outermost(r.Blocks) {
		s.tree.drop(p)
	}
}

// Block holds a block of another allocator, so that it is not allotted, even if parts of it are in use. It is
// idempotent.
func (s *Space) Block(foreign netip.Prefix) {
	if foreign = foreign.Masked(); !s.foreign[foreign] {
		s.foreign[foreign] = true
		s.tree.hold(foreign)
	}
}

// Unblock undoes Block. It is idempotent.
func (s *Space) Unblock(foreign netip.Prefix) {
	if foreign = foreign.Masked(); s.foreign[foreign] {
		delete(s.foreign, foreign)
		s.tree.drop(foreign)
	}
}

// Restore puts back a record that the ledger or the cluster still has, with its blocks unchanged,
// even outside of every parent. It does nothing if the cluster already has blocks by the rule.
func (s *Space) Restore(r Record) {
	r.Requests = slices.Clone(r.Requests)
	if i := s.index(r.Cluster, r.Rule); i >= 0 {
		return
	}
	for _, p := range outermost(r.Blocks) {
		s.tree.hold(p)
	}
	s.clusters[r.Cluster] = append(s.clusters[r.Cluster], &r)
}

func (s *Space) index(cluster, rule string) int {
	return slices.IndexFunc(s.clusters[cluster], func(r *Record) bool { return r.Rule == rule })
}

// Applied returns the rules of a cluster in the order in which they were applied.
func (s *Space) Applied(cluster string) []Applied {
	var all []Applied
	for _, r := range s.clusters[cluster] {
		all = append(all, r.Applied)
	}
	return all
}

// State is all that a Space is built from.
type State struct {
	Parents []Parent
	Records []Record       // by cluster, those of one in the order in which they were applied
	Foreign []netip.Prefix // blocks of other allocators
}

// Has reports whether a cluster has the rule.
func (s State) Has(cluster, rule string) bool {
	i, _ := slices.BinarySearchFunc(s.Records, cluster, func(r Record, of string) int { return cmp.Compare(r.Cluster, of) })
	for ; i < len(s.Records) && s.Records[i].Cluster == cluster; i++ {
		if s.Records[i].Rule == rule {
			return true
		}
	}
	return false
}

// Build returns the Space of a state, whose records may have any order. Blocks that overlap are all held; Check reports them.
func Build(state State) *Space {
	s := NewSpace()
	s.SetParents(state.Parents)
	for _, r := range state.Records {
		s.Restore(r)
	}
	for _, p := range state.Foreign {
		s.Block(p)
	}
	return s
}

// Snapshot returns the state, clusters by name and foreign blocks by address.
func (s *Space) Snapshot() State {
	state := State{Parents: s.parents, Foreign: slices.SortedFunc(maps.Keys(s.foreign), netip.Prefix.Compare)}
	for _, cluster := range slices.Sorted(maps.Keys(s.clusters)) {
		for _, r := range s.clusters[cluster] {
			record := *r
			record.Requests = slices.Clone(r.Requests)
			state.Records = append(state.Records, record)
		}
	}
	return state
}

// Clusters returns the records of each cluster in the order in which they were applied.
func (s *Space) Clusters() iter.Seq2[string, []*Record] { return maps.All(s.clusters) }

// Foreign returns the blocks of other allocators, each with true.
func (s *Space) Foreign() iter.Seq2[netip.Prefix, bool] { return maps.All(s.foreign) }

// outermost returns the blocks that lie in no other one: they were sliced from a parent of the configuration,
// the others from them.
func outermost(blocks []Block) []netip.Prefix {
	var outer []netip.Prefix
	for i, b := range blocks {
		inner := slices.ContainsFunc(outer, func(p netip.Prefix) bool { return covers(p, b.CIDR) })
		for _, other := range blocks[i+1:] {
			inner = inner || covers(other.CIDR, b.CIDR) && other.CIDR != b.CIDR
		}
		if !inner {
			outer = append(outer, b.CIDR)
		}
	}
	return outer
}

// covers reports whether b lies in a, or is a.
func covers(a, b netip.Prefix) bool { return a.Bits() <= b.Bits() && a.Contains(b.Addr()) }
