package worker_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/memory"
)

// scribe are notes that fail where a story says so.
type scribe struct {
	*memory.Notes
	w *world
}

func (s *scribe) Write(ctx context.Context, n network.Note) (network.Noted, error) {
	return call(s.w, "note", n.Runtime, func() (network.Noted, error) { return s.Notes.Write(ctx, n) })
}

func (s *scribe) Remove(ctx context.Context, n network.Note) (int, error) {
	return call(s.w, "remove-note", n.Runtime, func() (int, error) { return s.Notes.Remove(ctx, n) })
}

func (s *scribe) All(ctx context.Context) (network.Notes, error) {
	return call(s.w, "all-notes", "", func() (network.Notes, error) { return s.Notes.All(ctx) })
}

// putNote writes a ClusterConfig by hand, and a Cluster where it has no rule.
func (w *world) putNote(c command) (string, error) {
	n := network.Note{Runtime: c.get("runtime", ""), Cluster: network.Identity{Name: c.word(0), Namespace: "garden-kyma"}, Edited: c.has("edited")}
	if rule, given := c.lookup("rule"); given {
		cidr, err := netip.ParsePrefix(c.get("cidr", ""))
		if err != nil {
			return "", err
		}
		n.Applied = []network.Applied{{Rule: rule, Blocks: []network.Block{{CIDR: cidr, Paths: []string{"/" + rule}}}}}
	}
	w.notes.Put(n)
	return "", nil
}

// showNotes writes all that is noted.
func (w *world) showNotes(command) (string, error) {
	all, err := w.notes.Notes.All(w.ctx)
	var lines []string
	tell := func(kind string, notes []network.Note) {
		for _, n := range notes {
			said := words{fmt.Sprintf("%s %s", kind, n.Cluster.Name)}
			said.addIf(n.Runtime != "", "of %s", n.Runtime)
			for _, a := range n.Applied {
				for _, b := range a.Blocks {
					said.add("%s by rule %s", b.CIDR, a.Rule)
				}
			}
			lines = append(lines, said.String())
		}
	}
	tell("ClusterConfig of", all.Configs)
	tell("Cluster", all.Clusters)
	return strings.Join(lines, "\n"), err
}
