package checker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/simulation/promises"
)

// Networks are the network blocks in the stores.
type Networks struct {
	Ranges *network.State // from Redis; nil if they are not built
	Notes  *network.Notes // from the cluster; nil if it was not read
}

func readNetworks(ctx context.Context, s Sources) (n Networks, err error) {
	state, err := blocks.New(s.Counters).State(ctx)
	switch {
	case err == nil:
		n.Ranges = &state
	case !errors.Is(err, account.ErrNotBuilt):
		return n, err
	}
	if s.Configs != nil {
		notes, err := s.Configs.All(ctx)
		if err != nil {
			return n, err
		}
		n.Notes = &notes
	}
	return n, nil
}

// granted returns the distinct blocks of a runtime's replies. It reports I10 if two replies have different
// blocks for one rule.
func granted(replies []events.Reply, bad report) []promises.Block {
	rules := map[string][]promises.Block{}
	for _, r := range replies {
		here := map[string][]promises.Block{}
		for _, b := range r.Network {
			cidr, err := netip.ParsePrefix(b.CIDR)
			if err != nil {
				bad("I9 NoOverlap", "runtime %s was answered with %q", r.RuntimeID, b.CIDR)
				continue
			}
			here[b.Rule] = append(here[b.Rule], promises.Block{Runtime: r.RuntimeID, Rule: b.Rule, CIDR: cidr})
		}
		for rule, is := range here {
			if was, known := rules[rule]; known && !slices.Equal(was, is) {
				bad("I10 Stable", "runtime %s was answered with %v and with %v", r.RuntimeID, was, is)
			}
			rules[rule] = is
		}
	}
	return slices.Concat(slices.Collect(maps.Values(rules))...)
}

// overlap reports whether two blocks overlap illegally. Blocks of one rule of one cluster may be nested.
func overlap(s, o promises.Block) bool {
	return s.CIDR.Overlaps(o.CIDR) && (s.Runtime != o.Runtime || s.Rule != o.Rule)
}

// network checks I9: the blocks of live clusters are disjoint, and Redis, ClusterConfigs and annotations have exactly
// these. It leaves out stores that were not read.
func (f Facts) network(live map[string]events.Reply, bad report) {
	byRuntime := map[string][]events.Reply{}
	for _, subject := range slices.Sorted(maps.Keys(f.Replies)) {
		if r := f.Replies[subject]; r.Status == events.StatusAssigned {
			byRuntime[r.RuntimeID] = append(byRuntime[r.RuntimeID], r)
		}
	}
	var all []promises.Block
	for id := range live {
		all = append(all, granted(byRuntime[id], bad)...)
	}
	slices.SortFunc(all, func(a, b promises.Block) int {
		return cmp.Or(a.CIDR.Compare(b.CIDR), cmp.Compare(a.Runtime, b.Runtime), cmp.Compare(a.Rule, b.Rule))
	})
	for i, s := range all {
		for _, o := range all[:i] {
			if overlap(s, o) {
				bad("I9 NoOverlap", "%v and %v are both in use", o, s)
			}
		}
	}
	if f.Watched != nil {
		f.blocksOverTime(bad)
	}
	if f.Networks.Ranges != nil {
		f.Given, f.Held = all, promises.Held(*f.Networks.Ranges)
		f.Blocks(bad)
	}
	if f.Networks.Notes != nil {
		f.notes(live, all, bad)
	}
}

// blocksOverTime checks each answer against earlier answers whose clusters cannot have left by then. It
// ignores an answer whose sequence is below the sequence of the runtime's release: the worker that decided it
// before the release published it late, and it is not in force. An answer that was stored before the reply to
// the deprovision counts: a rebuild takes its blocks for a live cluster's.
func (f Facts) blocksOverTime(bad report) {
	type given struct {
		promises.Block

		at time.Time
	}
	var before []given
	released := map[string]int64{} // the sequence of the release
	for _, s := range f.Watched.Stored {
		if s.Reply.Status == events.StatusReleased {
			released[s.Reply.RuntimeID] = sequence(s.Reply)
		}
		if s.Reply.Status != events.StatusAssigned || sequence(s.Reply) < released[s.Reply.RuntimeID] {
			continue
		}
		// Of an hour's answers few are in use at a time.
		before = slices.DeleteFunc(before, func(o given) bool {
			left, leaves := f.Watched.Departed[o.Runtime]
			return leaves && !left.After(s.Time)
		})
		for _, b := range granted([]events.Reply{s.Reply}, bad) {
			for _, o := range before {
				if overlap(b, o.Block) && o.Runtime != b.Runtime {
					bad("I9 NoOverlap", "%v was given at %s, while %v, given at %s, was in use", b, stamp(s.Time), o.Block, stamp(o.at))
				}
			}
			before = append(before, given{b, s.Time})
		}
	}
}

func sequence(r events.Reply) int64 { return cmp.Or(r.Decision, &events.Decision{}).Sequence }

// notes checks the ClusterConfigs and annotations of clusters that have a name and a namespace.
func (f Facts) notes(live map[string]events.Reply, all []promises.Block, bad report) {
	var should, is, annotated, there []promises.Block
	clusters := map[network.Identity]bool{}
	for _, n := range f.Networks.Notes.Clusters {
		clusters[n.Cluster] = true
		annotated = append(annotated, noted(n)...)
	}
	for _, s := range all {
		c := live[s.Runtime].Cluster
		if c == nil || c.Name == "" || c.Namespace == "" {
			continue
		}
		should = append(should, s)
		if clusters[network.Identity{Name: c.Name, Namespace: c.Namespace}] {
			there = append(there, s)
		}
	}
	for _, n := range f.Networks.Notes.Configs {
		is = append(is, noted(n)...)
		if n.Edited {
			bad("I9 NoOverlap", "the ClusterConfig of %s, %v, is not as it was written", n.Runtime, n.Applied)
		}
	}
	promises.Same("a ClusterConfig", is, should, bad)
	promises.Same("an annotation", annotated, there, bad)
}

func noted(n network.Note) (all []promises.Block) {
	for _, a := range n.Applied {
		for _, b := range a.Blocks {
			all = append(all, promises.Block{Runtime: n.Runtime, Rule: a.Rule, CIDR: b.CIDR})
		}
	}
	return all
}
