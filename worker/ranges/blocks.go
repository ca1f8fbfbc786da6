package ranges

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// clusterOf returns the properties that the selectors of network rules use. If the event describes no cluster (c
// is nil), that is only the name of the Shoot.
func clusterOf(c *events.Cluster, shoot string) network.Cluster {
	if c == nil {
		return network.Cluster{Name: shoot}
	}
	return network.Cluster{Name: c.Name, Namespace: c.Namespace, Labels: c.Labels, Purposes: c.Purposes}
}

// blocks returns the network part of a reply.
func blocks(applied []network.Applied) []events.Network {
	var out []events.Network
	for _, rule := range applied {
		for _, block := range rule.Blocks {
			out = append(out, events.Network{Rule: rule.Rule, ID: block.ID, CIDR: block.CIDR.String(), Paths: block.Paths})
		}
	}
	return out
}

// patch returns the patch operations that add blocks to a Shoot.
func patch(given []events.Network) []events.PatchOperation {
	var out []events.PatchOperation
	for _, block := range given {
		for _, path := range block.Paths {
			out = append(out, events.PatchOperation{Op: "add", Path: path, Value: block.CIDR})
		}
	}
	return out
}

// recordsOf returns the rules that a runtime's answers applied, with the ids of their requests. A rule is
// applied to a cluster once, so all answers with this rule have the same blocks.
func recordsOf(runtime string, answers []answer) ([]network.Record, error) {
	var records []network.Record
	for _, answer := range answers {
		if answer.fault != nil {
			return nil, fmt.Errorf("reading the network ranges in the answer to request %s of runtime %s: %w", answer.request, runtime, answer.fault)
		}
		for _, rule := range answer.applied {
			at := slices.IndexFunc(records, func(r network.Record) bool { return r.Rule == rule.Rule })
			if at < 0 {
				at = len(records)
				records = append(records, network.Record{Cluster: runtime, Applied: rule})
			}
			records[at].Requests = append(records[at].Requests, answer.request)
		}
	}
	return records, nil
}

// appliedOf is the inverse of blocks: it parses the network part of a reply.
func appliedOf(given []events.Network) ([]network.Applied, error) {
	var applied []network.Applied
	for _, g := range given {
		cidr, err := netip.ParsePrefix(g.CIDR)
		if err != nil {
			return nil, err
		}
		if n := len(applied); n == 0 || applied[n-1].Rule != g.Rule {
			applied = append(applied, network.Applied{Rule: g.Rule})
		}
		last := &applied[len(applied)-1]
		last.Blocks = append(last.Blocks, network.Block{ID: g.ID, CIDR: cidr, Paths: g.Paths})
	}
	return applied, nil
}
