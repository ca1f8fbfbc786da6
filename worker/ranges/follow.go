package ranges

import (
	"errors"
	"slices"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// Follower provides the properties that selectors use after a cluster was answered: those of its present
// Cluster resource, or those of its event if there is none. A nil Follower uses the event's.
type Follower struct {
	// Now returns the present Cluster resource, and whether it exists and is not being deleted: package
	// clusterconfig.
	Now func(id network.Identity) (network.Cluster, bool)
	// Synced reports whether Now knows the Clusters yet. Nil means that it does.
	Synced   func() bool
	Networks func() *network.Config // the present configuration, nil if there is none
	// Soon requests that a runtime's cluster is served, SoonOf that the runtimes of a Cluster are.
	Soon   func(runtime string)
	SoonOf func(id network.Identity)
}

// errUnsynced means that a turn has to wait: it would allot blocks, which stay, by the data of events.
var errUnsynced = errors.New("the Clusters are not read yet")

func (f *Follower) synced() bool { return f == nil || f.Synced == nil || f.Synced() }

// standing returns the properties that selectors use for a cluster that was answered.
func (f *Follower) standing(c *events.Cluster, shoot string) network.Cluster {
	said := clusterOf(c, shoot)
	if f == nil || c == nil || said.Name == "" || said.Namespace == "" {
		return said
	}
	if now, there := f.Now(network.Identity{Name: said.Name, Namespace: said.Namespace}); there {
		return now
	}
	return said
}

// Changed requests that a Cluster is served if any rule matches it now and did not match it before. before is nil for
// a new Cluster. Changed does not block.
func (f *Follower) Changed(before, now *network.Cluster) {
	config := f.Networks()
	if config == nil {
		return // the first configuration causes a pass, which reads the present Clusters
	}
	var had []string
	if before != nil {
		had = ruleIDs(config.Match(*before))
	}
	if !within(ruleIDs(config.Match(*now)), had) {
		f.SoonOf(network.Identity{Name: now.Name, Namespace: now.Namespace})
	}
}

// answered requests that a cluster is served if its stored assignment does not have every rule that matches the
// present Cluster, which may differ from the event.
func (f *Follower) answered(r events.Reply, held []network.Applied) {
	if f == nil || r.Cluster == nil {
		return
	}
	config := f.Networks()
	if config == nil {
		return
	}
	has := make([]string, len(held))
	for i, a := range held {
		has[i] = a.Rule
	}
	if !within(ruleIDs(config.Match(f.standing(r.Cluster, ""))), has) {
		f.Soon(r.RuntimeID)
	}
}

func ruleIDs(rules []network.Rule) []string {
	ids := make([]string, len(rules))
	for i := range rules {
		ids[i] = rules[i].ID
	}
	return ids
}

// within reports whether all of some ids are among others.
func within(some, others []string) bool {
	return !slices.ContainsFunc(some, func(id string) bool { return !slices.Contains(others, id) })
}
