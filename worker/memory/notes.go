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

// Notes implement ranges.Notes: a ClusterConfig for each rule, and an annotation on each existing Cluster.
// They are safe for concurrent use. The only error is engine.ErrUnavailable, after ctx has ended.
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

// NewNotes returns an empty set of notes.
func NewNotes() *Notes {
	return &Notes{configs: map[noteKey]network.Note{}, clusters: map[network.Identity]network.Note{}}
}

// Put writes a ClusterConfig of one rule, like another allocator or an editor. A note without a rule creates
// or replaces the Cluster itself.
func (n *Notes) Put(note network.Note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(note.Applied) == 0 {
		n.clusters[note.Cluster] = note
		return
	}
	n.configs[noteKey{note.Cluster, note.Applied[0].Rule}] = note
}

// Write stores a note. It returns the number of changed objects, and the objects of other owners, which it
// does not change.
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

// annotate writes the blocks on the Cluster, if it exists.
func (n *Notes) annotate(note network.Note, noted *network.Noted) {
	was, there := n.clusters[note.Cluster]
	switch {
	case !there:
		return
	case was.Runtime != "" && was.Runtime != note.Runtime, was.Runtime == "" && network.Contradict(was.Applied, note.Applied):
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

// without returns the rules of all that are not in these.
func without(all, these []network.Applied) []network.Applied {
	return slices.DeleteFunc(slices.Clone(all), func(a network.Applied) bool {
		return slices.ContainsFunc(these, func(b network.Applied) bool { return a.Rule == b.Rule })
	})
}

// Remove removes the ClusterConfigs of the note's runtime, and their rules and the note's from the
// annotations of their Clusters. It returns the number of changed objects.
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

// All returns all records, also those of other allocators.
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
