package network

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
)

// Note lists the rules of a cluster with their blocks. It is written where the Cluster resources are, in
// addition to the ledger.
type Note struct {
	Runtime string // "" where another allocator wrote it, or an edit has removed the runtime
	Cluster Identity
	Applied []Applied
	Edited  bool // the note was changed after it was written
}

// Notes are all notes where the Cluster resources are.
type Notes struct {
	Configs  []Note // one for each ClusterConfig
	Clusters []Note // one for each Cluster, also without any block
}

// Noted is the result of writing a note.
type Noted struct {
	Changed int     // objects that were written
	Taken   []Taken // objects of another owner, which were left as they are
}

// ErrRefused means that the Kubernetes API will never accept a note, for example because no object can have
// its name.
var ErrRefused = errors.New("the API does not take the note")

// Taken is an object that a note needs, and that another owner has.
type Taken struct {
	Object string // its kind, namespace and name
	By     string // the runtime that owns it, "" if no worker wrote it
}

// Equal reports whether both are the same rule with the same blocks.
func (a Applied) Equal(b Applied) bool {
	return a.Rule == b.Rule && slices.EqualFunc(a.Blocks, b.Blocks, func(x, y Block) bool {
		return x.ID == y.ID && x.CIDR == y.CIDR && slices.Equal(x.Paths, y.Paths)
	})
}

// Contradict reports whether a rule that is in both has different blocks.
func Contradict(a, b []Applied) bool {
	return slices.ContainsFunc(a, func(a Applied) bool {
		return slices.ContainsFunc(b, func(b Applied) bool { return a.Rule == b.Rule && !maps.Equal(a.ByPath(), b.ByPath()) })
	})
}

// ByPath returns the block of each path.
func (a Applied) ByPath() map[string]netip.Prefix {
	paths := map[string]netip.Prefix{}
	for _, b := range a.Blocks {
		for _, path := range b.Paths {
			paths[path] = b.CIDR
		}
	}
	return paths
}
