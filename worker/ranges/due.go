package ranges

import (
	"maps"
	"sync"

	"github.com/hap-worker/hap-worker/engine/network"
)

// mostDue is the largest number of clusters that are served one by one. If more are due, a pass serves all clusters.
const mostDue = 1000

// due collects what the next turn of a Reconciler has to serve. It is safe for concurrent use.
type due struct {
	mu sync.Mutex
	dueNow
}

// dueNow says which clusters one turn serves.
type dueNow struct {
	all      bool                      // every cluster
	unserved bool                      // those for which a rule found no room
	runtimes map[string]bool           // the clusters of these runtimes
	clusters map[network.Identity]bool // those of the runtimes whose answers name these Clusters
}

// add adds what one turn has to serve.
func (d *due) add(more dueNow) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all, d.unserved = d.all || more.all, d.unserved || more.unserved
	if d.runtimes == nil {
		d.runtimes, d.clusters = map[string]bool{}, map[network.Identity]bool{}
	}
	maps.Copy(d.runtimes, more.runtimes)
	maps.Copy(d.clusters, more.clusters)
	if d.all = d.all || len(d.runtimes)+len(d.clusters) > mostDue; d.all {
		clear(d.runtimes)
		clear(d.clusters)
	}
}

// take returns what is due, after which nothing is.
func (d *due) take() dueNow {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.dueNow
	d.dueNow = dueNow{}
	return now
}

// unserved are the clusters for which a rule found no room. It is safe for concurrent use.
type unserved struct {
	mu       sync.Mutex
	counts   map[string]int      // number of clusters by the id of the rule
	rules    map[string][]string // ids of the rules by runtime, for at most mostDue runtimes
	leftOver bool                // there are more runtimes
}

// reset forgets all clusters.
func (u *unserved) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts, u.rules, u.leftOver = map[string]int{}, map[string][]string{}, false
}

// set replaces the rules that find no room for a runtime's cluster.
func (u *unserved) set(runtime string, rules []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, rule := range u.rules[runtime] {
		if u.counts[rule]--; u.counts[rule] == 0 {
			delete(u.counts, rule)
		}
	}
	delete(u.rules, runtime)
	if len(rules) == 0 {
		return
	}
	for _, rule := range rules {
		u.counts[rule]++
	}
	if u.leftOver = u.leftOver || len(u.rules) == mostDue; !u.leftOver {
		u.rules[runtime] = rules
	}
}

// known returns the runtimes. all is false if there are more of them.
func (u *unserved) known() (runtimes map[string]bool, all bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	runtimes = map[string]bool{}
	for runtime := range u.rules {
		runtimes[runtime] = true
	}
	return runtimes, !u.leftOver
}

// byRule returns the number of clusters by the id of the rule.
func (u *unserved) byRule() map[string]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.counts)
}
