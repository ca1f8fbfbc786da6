package network

import (
	"net/netip"
	"time"
)

// Config is a valid IPAMConfig.
type Config struct {
	// Refresh is how often the blocks in Redis are compared with the ledger, at least a second; 0 is never.
	Refresh time.Duration
	// Parents are ordered by id.
	Parents []Parent
	// Rules are in the order of the configuration.
	Rules []Rule
}

// Parent is a named list of ranges that blocks are sliced from, in order.
type Parent struct {
	ID    string
	CIDRs []netip.Prefix
}

// Rule lists the blocks for the clusters that its selector matches. A rule with the same id is applied to a
// cluster only once.
type Rule struct {
	ID         string
	Selector   Selector
	Injections []Injection
}

// Injection asks for one block.
type Injection struct {
	ID    string   // by which later injections of the rule may slice from it, "" for none
	Paths []string // JSON pointers into the Shoot manifest, at least one
	// Parents are ids of parents, or of earlier injections of the rule, in the
	// order in which they are tried. None: all parents of the configuration.
	Parents []string
	Size    int // prefix length of the block
}

// Cluster has the fields that selectors look at.
type Cluster struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
	Purposes  []string          `json:"purposes"`
}

// Match returns the rules that match the cluster, in the order of the configuration. A rule without injections
// does nothing, so it matches no cluster.
func (c *Config) Match(cluster Cluster) []Rule {
	var matching []Rule
	for _, r := range c.Rules {
		if len(r.Injections) > 0 && r.Selector.Matches(cluster) {
			matching = append(matching, r)
		}
	}
	return matching
}
