package network

import (
	"errors"
	"net/netip"
	"slices"
)

// Note is written, beside the ledger, where the Cluster resources live: the
// rules that a cluster was given, with their blocks.
type Note struct {
	Runtime string // "" where another allocator wrote it
	Cluster Identity
	Applied []Applied
	Edited  bool // it is not as it was written
}

// Notes are all that is written there.
type Notes struct {
	Configs  []Note // one for each ClusterConfig
	Clusters []Note // one for each Cluster, also without any block
}

// Noted says what came of writing a note.
type Noted struct {
	Changed int     // objects that were written
	Taken   []Taken // what was left as it is
}

// ErrRefused says that a note will not be taken however often it is written, such as
// one for a name that no object can have.
var ErrRefused = errors.New("the API does not take the note")

// Taken is an object that a note would stand in, and that another owner has.
type Taken struct {
	Object string // its kind, namespace and name
	By     string // the runtime that has it, "" for one that is no worker's
}

// Equal reports whether two rules are the same with the same blocks.
func (a Applied) Equal(b Applied) bool {
	return a.Rule == b.Rule && slices.EqualFunc(a.Blocks, b.Blocks, func(x, y Block) bool {
		return x.ID == y.ID && x.CIDR == y.CIDR && slices.Equal(x.Paths, y.Paths)
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
