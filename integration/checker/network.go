package checker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// Networks are the network blocks, as they were read.
type Networks struct {
	Ranges *network.State // from Redis; nil where there are none
	Notes  *network.Notes // from the cluster; nil where it is not read
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

// slice is a block of a cluster.
type slice struct {
	runtime, rule string
	cidr          netip.Prefix
}

// granted are the blocks of the answers of a runtime, each once: I10 where two answers say
// different things of one rule.
func granted(replies []events.Reply, bad report) []slice {
	rules := map[string][]slice{}
	for _, r := range replies {
		here := map[string][]slice{}
		for _, b := range r.Network {
			cidr, err := netip.ParsePrefix(b.CIDR)
			if err != nil {
				bad("I9 NoOverlap", "runtime %s was answered with %q", r.RuntimeID, b.CIDR)
				continue
			}
			here[b.Rule] = append(here[b.Rule], slice{r.RuntimeID, b.Rule, cidr})
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

// overlap reports whether two blocks have addresses in common that they must not:
// those of one rule of one cluster may lie in each other.
func (s slice) overlap(o slice) bool {
	return s.cidr.Overlaps(o.cidr) && (s.runtime != o.runtime || s.rule != o.rule)
}

// network checks that blocks are disjoint, that Redis holds those of the live
// clusters and no others, and that the cluster says the same: I9.
func (f Facts) network(live map[string]events.Reply, bad report) {
	byRuntime := map[string][]events.Reply{}
	for _, subject := range slices.Sorted(maps.Keys(f.Replies)) {
		if r := f.Replies[subject]; r.Status == events.StatusAssigned {
			byRuntime[r.RuntimeID] = append(byRuntime[r.RuntimeID], r)
		}
	}
	var all []slice
	for id := range live {
		all = append(all, granted(byRuntime[id], bad)...)
	}
	slices.SortFunc(all, func(a, b slice) int {
		return cmp.Or(a.cidr.Compare(b.cidr), cmp.Compare(a.runtime, b.runtime), cmp.Compare(a.rule, b.rule))
	})
	for i, s := range all {
		for _, o := range all[:i] {
			if s.overlap(o) {
				bad("I9 NoOverlap", "%v and %v are both in use", o, s)
			}
		}
	}
	if f.Watched != nil {
		f.blocksOverTime(bad)
	}
	if f.Networks.Ranges != nil {
		same("Redis", inRedis(*f.Networks.Ranges), all, bad)
	}
	if f.Networks.Notes != nil {
		f.notes(live, all, bad)
	}
}

// blocksOverTime checks each answer against those before it whose clusters cannot
// have gone by then. An answer to a runtime that the ledger calls released already is
// passed over: the worker that decided it before the release was late to publish it, and by its
// sequence it is not in force. One before the reply to its deprovision counts: a rebuild
// takes its blocks for those of a live cluster.
func (f Facts) blocksOverTime(bad report) {
	type given struct {
		slice
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
		for _, b := range granted([]events.Reply{s.Reply}, bad) {
			for _, o := range before {
				left, leaves := f.Watched.Departed[o.runtime]
				if b.overlap(o.slice) && o.runtime != b.runtime && (!leaves || left.After(s.Time)) {
					bad("I9 NoOverlap", "%v was given at %s, while %v, given at %s, was in use", b, stamp(s.Time), o.slice, stamp(o.at))
				}
			}
			before = append(before, given{b, s.Time})
		}
	}
}

func sequence(r events.Reply) int64 { return cmp.Or(r.Decision, &events.Decision{}).Sequence }

func inRedis(state network.State) (all []slice) {
	for _, r := range state.Records {
		for _, b := range r.Blocks {
			all = append(all, slice{r.Cluster, r.Rule, b.CIDR})
		}
	}
	return all
}

// same checks that somewhere there are the blocks of the ledger, and no others.
func same(where string, is, should []slice, bad report) {
	for _, s := range should {
		if !slices.Contains(is, s) {
			bad("I9 NoOverlap", "%v is in use, %s does not say so", s, where)
		}
	}
	for _, s := range is {
		if !slices.Contains(should, s) {
			bad("I9 NoOverlap", "%v is in %s, and of nobody", s, where)
		}
	}
}

// notes checks what is written for clusters that have a name and a namespace.
func (f Facts) notes(live map[string]events.Reply, all []slice, bad report) {
	var should, is, annotated, there []slice
	clusters := map[network.Identity]bool{}
	for _, n := range f.Networks.Notes.Clusters {
		clusters[n.Cluster] = true
		annotated = append(annotated, noted(n)...)
	}
	for _, s := range all {
		c := live[s.runtime].Cluster
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
	same("a ClusterConfig", is, should, bad)
	same("an annotation", annotated, there, bad)
}

func noted(n network.Note) (all []slice) {
	for _, a := range n.Applied {
		for _, b := range a.Blocks {
			all = append(all, slice{n.Runtime, a.Rule, b.CIDR})
		}
	}
	return all
}

// String names cluster, rule and block.
func (s slice) String() string {
	return strings.Join([]string{fmt.Sprint(s.cidr), "of", s.runtime, "by rule", s.rule}, " ")
}
