package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
)

// Acquired is the result of Acquire.
type Acquired struct {
	Applied []Applied // all rules of the cluster, in the order in which they were applied
	New     []string  // ids of the rules that this call applied
	Skipped []Skipped // rules that were not applied, since another rule of the cluster has one of their paths
}

// Skipped is a rule that was not applied to a cluster because another rule of
// the cluster has one of its paths.
type Skipped struct {
	Rule string
	Path string // the first path that another rule has
	By   string // that other rule
}

// String names the rule, the path and the rule that has the path.
func (s Skipped) String() string {
	return fmt.Sprintf("rule %s is not applied: its path %q is taken by rule %s", s.Rule, s.Path, s.By)
}

// ErrUnknownParent means that a rule names a parent that was not set: rules and parents are from different
// configurations.
var ErrUnknownParent = errors.New("there is no such parent now")

// Exhausted says for which block a rule found no room. An engine.Error of CodeNetworkExhausted wraps it.
type Exhausted struct {
	Rule      string
	Injection string // its id, or its number in the rule, from 1
	Path      string // the first of the injection
	Size      int    // prefix length that was asked for
	Left      []Left // by parent, in the order in which they were tried
}

// Left is the largest free block of a parent.
type Left struct {
	Parent  string
	Largest int // prefix length, -1 for none
}

// Error names the rule, the injection and the largest free block of each parent.
func (e *Exhausted) Error() string {
	left := make([]string, len(e.Left))
	for i, l := range e.Left {
		left[i] = l.Parent + " has nothing left"
		if l.Largest >= 0 {
			left[i] = fmt.Sprintf("the largest block left in %s is a /%d", l.Parent, l.Largest)
		}
	}
	if len(left) == 0 {
		left = []string{"there is no parent"}
	}
	return fmt.Sprintf("rule %s, injection %s (%s): no /%d is free: %s", e.Rule, e.Injection, e.Path, e.Size, strings.Join(left, ", "))
}

// Acquire applies rules to a cluster for a request, in their order, and returns all rules that the cluster
// then has. The request relies on the blocks of all of them. A rule that the cluster already has stays as it
// is, even if its injections have changed since. A rule with a path that another rule of the cluster has is
// Skipped. Acquire applies all other rules or none: if one finds no room, the error is an engine.Error of
// CodeNetworkExhausted with an *Exhausted, and nothing has changed. The error is ErrUnknownParent if a rule
// names a parent that is not set.
func (s *Space) Acquire(cluster, request string, rules []Rule) (Acquired, error) {
	var out Acquired
	var fresh []*Record
	undo := func() {
		for _, r := range fresh {
			s.giveBack(r)
		}
	}
	for _, rule := range rules {
		if s.index(cluster, rule.ID) >= 0 || slices.Contains(out.New, rule.ID) {
			continue
		}
		if path, by := taken(rule, s.clusters[cluster], fresh); by != "" {
			out.Skipped = append(out.Skipped, Skipped{Rule: rule.ID, Path: path, By: by})
			continue
		}
		blocks, err := s.slice(rule)
		if err != nil {
			undo()
			return Acquired{}, err
		}
		fresh = append(fresh, &Record{Cluster: cluster, Applied: Applied{Rule: rule.ID, Blocks: blocks}})
		out.New = append(out.New, rule.ID)
	}
	s.keep(cluster, append(s.clusters[cluster], fresh...))
	for _, r := range s.clusters[cluster] {
		if !slices.Contains(r.Requests, request) {
			r.Requests = append(r.Requests, request)
		}
	}
	out.Applied = s.Applied(cluster)
	return out, nil
}

// taken returns the rule's first path that one of the records has, and that record's rule; both "" for none.
func taken(rule Rule, records ...[]*Record) (path, by string) {
	for _, in := range rule.Injections {
		for _, p := range in.Paths {
			for _, r := range slices.Concat(records...) {
				if slices.ContainsFunc(r.Blocks, func(b Block) bool { return slices.Contains(b.Paths, p) }) {
					return p, r.Rule
				}
			}
		}
	}
	return "", ""
}

// slice takes a block for each injection of a rule. On an error it frees the blocks that it took.
func (s *Space) slice(rule Rule) (blocks []Block, err error) {
	local := map[string]*tree{} // the free space in this rule's blocks, by injection
	inside := map[string]netip.Prefix{}
	defer func() {
		if err != nil {
			for _, p := range outermost(blocks) {
				s.tree.drop(p)
			}
		}
	}()
	for i, in := range rule.Injections {
		sources, err := s.sources(in, local, inside)
		if err != nil {
			return blocks, fmt.Errorf("rule %s, injection %s: %w", rule.ID, injectionName(in, i), err)
		}
		cidr, ok := take(sources, in.Size)
		if !ok {
			return blocks, exhausted(rule, i, sources)
		}
		blocks = append(blocks, Block{ID: in.ID, CIDR: cidr, Paths: in.Paths})
		if in.ID != "" {
			local[in.ID], inside[in.ID] = newTree(), cidr
			local[in.ID].setParent(cidr, true)
		}
	}
	return blocks, nil
}

// supply is a parent that an injection tries: its CIDRs, and the tree that allots them.
type supply struct {
	id    string
	tree  *tree
	cidrs []netip.Prefix
}

// sources returns the parents of an injection in their order; if it names none, all parents of the
// configuration by id.
func (s *Space) sources(in Injection, local map[string]*tree, inside map[string]netip.Prefix) ([]supply, error) {
	var all []supply
	for _, id := range in.Parents {
		if t, ok := local[id]; ok {
			all = append(all, supply{id: id, tree: t, cidrs: []netip.Prefix{inside[id]}})
			continue
		}
		i := slices.IndexFunc(s.parents, func(p Parent) bool { return p.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("parent %s: %w", id, ErrUnknownParent)
		}
		all = append(all, supply{id: id, tree: s.tree, cidrs: s.parents[i].CIDRs})
	}
	if len(in.Parents) == 0 {
		for _, p := range s.parents {
			all = append(all, supply{id: p.ID, tree: s.tree, cidrs: p.CIDRs})
		}
	}
	return all, nil
}

// take holds and returns a block of the first parent that has room for it.
func take(sources []supply, size int) (netip.Prefix, bool) {
	for _, source := range sources {
		for _, parent := range source.cidrs {
			if cidr, ok := source.tree.find(parent, size); ok {
				source.tree.hold(cidr)
				return cidr, true
			}
		}
	}
	return netip.Prefix{}, false
}

func exhausted(rule Rule, i int, sources []supply) error {
	var left []Left
	for _, source := range sources {
		left = append(left, Left{Parent: source.id, Largest: source.largest()})
	}
	return NewExhausted(rule, i, left)
}

// NewExhausted returns the error for the injection with index i, which found no room.
func NewExhausted(rule Rule, i int, left []Left) error {
	in := rule.Injections[i]
	return &engine.Error{
		Code: engine.CodeNetworkExhausted,
		Err:  &Exhausted{Rule: rule.ID, Injection: injectionName(in, i), Path: in.Paths[0], Size: in.Size, Left: left},
		Hint: exhaustedHint(rule, in),
	}
}

// exhaustedHint says how to make room. In a block of an earlier injection of the rule there are only blocks of the same
// rule and cluster, so it does not help there to delete clusters.
func exhaustedHint(rule Rule, in Injection) string {
	local := func(id string) bool {
		return slices.ContainsFunc(rule.Injections, func(i Injection) bool { return i.ID == id })
	}
	const inParent, inRule = "add a CIDR to one of these parents, or delete clusters that have blocks there", "enlarge the block of the rule's earlier injection, by a smaller subnetSize"
	switch {
	case !slices.ContainsFunc(in.Parents, local):
		return inParent
	case slices.ContainsFunc(in.Parents, func(id string) bool { return !local(id) }):
		return inParent + ", or " + inRule
	default:
		return inRule
	}
}

func (s supply) largest() int {
	largest := -1
	for _, c := range s.cidrs {
		if left := s.tree.largest(c); left >= 0 && (largest < 0 || left < largest) {
			largest = left
		}
	}
	return largest
}

// injectionName returns the injection's id, or else its number from 1, for messages.
func injectionName(in Injection, i int) string {
	if in.ID != "" {
		return in.ID
	}
	return fmt.Sprint(i + 1)
}
