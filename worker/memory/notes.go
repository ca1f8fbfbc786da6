package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hap-worker/hap-worker/engine/network"
)

// Notes keep what is written beside the ledger of network blocks: a ClusterConfig for each
// rule, and what is said on a Cluster that is there. They are safe for concurrent use.
// Errors: engine.ErrUnavailable, of an ended context.
type Notes struct {
	mu       sync.Mutex
	configs  map[noteKey]network.Note // of one rule each
	clusters map[network.Identity]network.Note
}

type noteKey struct {
	cluster network.Identity
	rule    string
}

func (k noteKey) compare(o noteKey) int {
	return cmp.Or(compareIdentity(k.cluster, o.cluster), cmp.Compare(k.rule, o.rule))
}

func compareIdentity(a, b network.Identity) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// NewNotes returns notes without any.
func NewNotes() *Notes {
	return &Notes{configs: map[noteKey]network.Note{}, clusters: map[network.Identity]network.Note{}}
}

// Put writes a ClusterConfig of one rule as another allocator does, or as a writer
// that edits it. Without a rule it is a Cluster.
func (n *Notes) Put(note network.Note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(note.Applied) == 0 {
		n.clusters[note.Cluster] = note
		return
	}
	n.configs[noteKey{note.Cluster, note.Applied[0].Rule}] = note
}

// Write makes what is written that of a note; it tells what is another's and stays.
func (n *Notes) Write(ctx context.Context, note network.Note) (noted network.Noted, err error) {
	if err := ended(ctx, "write a note"); err != nil {
		return noted, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, applied := range note.Applied {
		key := noteKey{note.Cluster, applied.Rule}
		was, there := n.configs[key]
		switch {
		case there && was.Runtime != note.Runtime:
			noted.Taken = append(noted.Taken, network.Taken{Object: fmt.Sprintf("ClusterConfig of %s, rule %s", note.Cluster.Name, applied.Rule), By: was.Runtime})
		case there && !was.Edited && was.Applied[0].Equal(applied):
		default:
			n.configs[key] = network.Note{Runtime: note.Runtime, Cluster: note.Cluster, Applied: []network.Applied{applied}}
			noted.Changed++
		}
	}
	n.annotate(note, &noted)
	return noted, nil
}

// annotate says on the Cluster, if it is there, which blocks it has.
func (n *Notes) annotate(note network.Note, noted *network.Noted) {
	was, there := n.clusters[note.Cluster]
	switch {
	case !there:
		return
	case was.Runtime != "" && was.Runtime != note.Runtime:
		noted.Taken = append(noted.Taken, network.Taken{Object: "Cluster " + note.Cluster.Name, By: was.Runtime})
		return
	}
	left := without(was.Applied, note.Applied)
	should := network.Note{Runtime: note.Runtime, Cluster: note.Cluster, Applied: append(left, note.Applied...)}
	if was.Runtime != note.Runtime || !slices.EqualFunc(was.Applied, should.Applied, network.Applied.Equal) {
		n.clusters[note.Cluster] = should
		noted.Changed++
	}
}

// without are the rules of all that these are not.
func without(all, these []network.Applied) []network.Applied {
	return slices.DeleteFunc(slices.Clone(all), func(a network.Applied) bool {
		return slices.ContainsFunc(these, func(b network.Applied) bool { return a.Rule == b.Rule })
	})
}

// Remove takes back what was written of the note's runtime, and returns how many objects
// that changed.
func (n *Notes) Remove(ctx context.Context, note network.Note) (changed int, err error) {
	if err := ended(ctx, "remove a note"); err != nil {
		return 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	of := map[network.Identity][]network.Applied{note.Cluster: note.Applied}
	for key, was := range n.configs {
		if was.Runtime == note.Runtime {
			of[key.cluster] = append(slices.Clone(of[key.cluster]), was.Applied...)
			delete(n.configs, key)
			changed++
		}
	}
	for id, rules := range of {
		if was, there := n.clusters[id]; there && was.Runtime == note.Runtime {
			n.clusters[id] = network.Note{Cluster: id, Applied: without(was.Applied, rules)}
			changed++
		}
	}
	return changed, nil
}

// All returns all that is written, by whatever allocator.
func (n *Notes) All(ctx context.Context) (all network.Notes, err error) {
	if err := ended(ctx, "list notes"); err != nil {
		return all, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(n.configs), noteKey.compare) {
		all.Configs = append(all.Configs, n.configs[key])
	}
	for _, id := range slices.SortedFunc(maps.Keys(n.clusters), compareIdentity) {
		all.Clusters = append(all.Clusters, n.clusters[id])
	}
	return all, nil
}
