package ranges

import (
	"context"
	"slices"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// named has the runtimes whose answers name a Cluster, so that a change of the Cluster is served without a walk through
// the whole ledger. Only the turns of a Reconciler use it.
type named struct {
	read     uint64 // sequence of the last reply that was read
	runtimes map[network.Identity][]string
}

// fill replaces all by what a pass has read.
func (n *named) fill(g *Gathered) {
	n.read, n.runtimes = g.read.last, map[network.Identity][]string{}
	for runtime, answers := range g.read.eachLive() {
		if len(answers) > 0 {
			n.add(runtime, inForce(answers).cluster)
		}
	}
}

// add adds a runtime whose answer names the cluster c, which may be nil.
func (n *named) add(runtime string, c *events.Cluster) {
	if c == nil || c.Name == "" || c.Namespace == "" {
		return // it names no Cluster
	}
	id := network.Identity{Name: c.Name, Namespace: c.Namespace}
	if !slices.Contains(n.runtimes[id], runtime) {
		n.runtimes[id] = append(n.runtimes[id], runtime)
	}
}

// of returns the runtimes that name one of the Clusters, also in answers that were stored since the last read. Some of
// the runtimes may be gone.
func (n *named) of(ctx context.Context, ledger Ledger, clusters map[network.Identity]bool) (runtimes []string, err error) {
	if len(clusters) == 0 {
		return nil, nil
	}
	end, err := ledger.End(ctx)
	if err != nil {
		return nil, err
	}
	if end < n.read || n.runtimes == nil { // the ledger was created again, or no pass has read it yet
		n.read, n.runtimes = 0, map[network.Identity][]string{}
	}
	if end > n.read {
		err = ledger.EachAfter(ctx, n.read, func(stored events.Stored) error {
			n.read = stored.Sequence
			if stored.Reply.Status == events.StatusAssigned {
				n.add(stored.Reply.RuntimeID, stored.Reply.Cluster)
			}
			return nil
		})
	}
	for id := range clusters {
		runtimes = append(runtimes, n.runtimes[id]...)
	}
	return runtimes, err
}
