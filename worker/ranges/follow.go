package ranges

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// Clusters knows the Cluster resources that there are now: package gardener.
type Clusters interface {
	// Now returns a Cluster as it stands, and whether there is one.
	Now(id network.Identity) (network.Cluster, bool)
}

// followAfter is how long changes of Clusters are collected before a pass serves them.
const followAfter = 2 * time.Second

// Follower says what selectors look at once a cluster was answered: the Cluster as it
// stands now, and where there is none what its event said. A nil one goes by the event.
type Follower struct {
	Clusters Clusters
	Networks Networks
	// Wanted asks for a pass over all clusters.
	Wanted func()

	soon atomic.Bool // a pass will be asked for
}

// standing returns what selectors look at for a cluster that was answered.
func (f *Follower) standing(c *events.Cluster, shoot string) network.Cluster {
	said := clusterOf(c, shoot)
	if f == nil || c == nil || said.Name == "" || said.Namespace == "" {
		return said
	}
	if now, there := f.Clusters.Now(network.Identity{Name: said.Name, Namespace: said.Namespace}); there {
		return now
	}
	return said
}

// Changed follows a Cluster that has come, for which before is nil, or has changed: a rule
// that matches it only by now asks for a pass. It does not wait.
func (f *Follower) Changed(before, now *network.Cluster) {
	config := f.Networks.Config()
	if config == nil {
		return // the pass for a new configuration sees the Cluster as it stands
	}
	var had []string
	if before != nil {
		had = ruleIDs(config.Match(*before))
	}
	if !within(ruleIDs(config.Match(*now)), had) {
		f.ask()
	}
}

// answered follows an assignment that was stored just now: its event may have said
// something else than the Cluster by then.
func (f *Follower) answered(r events.Reply, held []network.Applied) {
	if f == nil || r.Cluster == nil {
		return
	}
	config := f.Networks.Config()
	if config == nil {
		return
	}
	has := make([]string, len(held))
	for i, a := range held {
		has[i] = a.Rule
	}
	if !within(ruleIDs(config.Match(f.standing(r.Cluster, ""))), has) {
		f.ask()
	}
}

func (f *Follower) ask() {
	if f.soon.CompareAndSwap(false, true) {
		time.AfterFunc(followAfter, func() {
			f.soon.Store(false)
			f.Wanted()
		})
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
