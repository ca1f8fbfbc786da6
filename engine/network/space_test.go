package network_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/engine/network/networktest"
	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
)

// TestSpaceAgainstBitmap: after any calls, the Space decides like a map of single addresses, keeps NoOverlap,
// and can be rebuilt to an equal one.
func TestSpaceAgainstBitmap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{space: network.NewSpace(), naive: newNaive()}
		m.SetParents(t)
		t.Repeat(rapid.StateMachineActions(m))
	})
}

type machine struct {
	space *network.Space
	naive *naive
}

func (m *machine) SetParents(t *rapid.T) {
	parents := networktest.Parents().Draw(t, "parents")
	m.space.SetParents(parents)
	m.naive.parents = parents
}

func (m *machine) Acquire(t *rapid.T) {
	cluster, request := networktest.Cluster().Draw(t, "cluster"), networktest.Request().Draw(t, "request")
	rules := networktest.Rules().Draw(t, "rules")
	got, err := m.space.Acquire(cluster, request, rules)
	want, wantErr := m.naive.acquire(cluster, request, rules)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v\nwant %+v, %v", got, err, want, wantErr)
	}
	if err == nil {
		again, err := m.space.Acquire(cluster, request, rules)
		if err != nil || len(again.New) > 0 || !reflect.DeepEqual(again.Applied, got.Applied) {
			t.Fatalf("repeated it gives %+v, %v after %+v", again, err, got)
		}
	}
}

func (m *machine) Release(t *rapid.T) {
	cluster := networktest.Cluster().Draw(t, "cluster")
	got, want := m.space.Release(cluster), m.naive.applied(cluster)
	delete(m.naive.clusters, cluster)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("gave back %v, want %v", got, want)
	}
}

func (m *machine) Return(t *rapid.T) {
	cluster, request := networktest.Cluster().Draw(t, "cluster"), networktest.Request().Draw(t, "request")
	got, want := m.space.Return(cluster, request), m.naive.giveBack(cluster, request)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("gave back %v, want %v", got, want)
	}
}

func (m *machine) Block(t *rapid.T) {
	p := networktest.Foreign().Draw(t, "block")
	m.space.Block(p)
	m.naive.foreign[p] = true
}

func (m *machine) Unblock(t *rapid.T) {
	p := networktest.Foreign().Draw(t, "block")
	m.space.Unblock(p)
	delete(m.naive.foreign, p)
}

func (m *machine) Rebuild(*rapid.T) { m.space = network.Build(m.space.Snapshot()) }

func (m *machine) Check(t *rapid.T) {
	if faults := m.space.Check(); len(faults) > 0 {
		t.Fatalf("NoOverlap is broken: %v", faults)
	}
	if got, want := m.space.Largest(), m.naive.largest(); !reflect.DeepEqual(got, want) {
		t.Fatalf("left %v, want %v", got, want)
	}
	if got, want := network.Build(m.space.Snapshot()).Snapshot(), m.space.Snapshot(); !reflect.DeepEqual(got, want) {
		t.Fatalf("built anew it is %+v, want %+v", got, want)
	}
}

// naive is a Space that only has a list of blocks and their owners.
type naive struct {
	parents  []network.Parent // by id
	clusters map[string][]network.Record
	foreign  map[netip.Prefix]bool
}

func newNaive() *naive {
	return &naive{clusters: map[string][]network.Record{}, foreign: map[netip.Prefix]bool{}}
}

// held returns which of the addresses 10.0.0.0 to 10.0.0.255 are taken.
func (n *naive) held(extra []network.Block) (held [256]bool) {
	take := func(p netip.Prefix) {
		for i := range 256 {
			held[i] = held[i] || p.Contains(at(i))
		}
	}
	for _, b := range extra {
		take(b.CIDR)
	}
	for p := range n.foreign {
		take(p)
	}
	for _, records := range n.clusters {
		for _, r := range records {
			for _, b := range r.Blocks {
				take(b.CIDR)
			}
		}
	}
	return held
}

func at(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }

// whole reports whether a block lies in the parent and is free as a whole.
func whole(parent, p netip.Prefix, held [256]bool) bool {
	if p.Bits() < parent.Bits() || !parent.Contains(p.Addr()) {
		return false
	}
	for i := range 256 {
		if held[i] && p.Contains(at(i)) {
			return false
		}
	}
	return true
}

// find tries every block of every size: it returns the smallest free block that is not half of a larger free
// one.
func find(parent netip.Prefix, size int, held [256]bool) (netip.Prefix, bool) {
	for bits := size; bits >= parent.Bits(); bits-- {
		for i := range 256 {
			p := netip.PrefixFrom(at(i), bits)
			if p.Masked() != p || !whole(parent, p, held) {
				continue
			}
			if twice, _ := at(i).Prefix(max(0, bits-1)); bits > parent.Bits() && whole(parent, twice, held) {
				continue
			}
			return netip.PrefixFrom(at(i), size), true
		}
	}
	return netip.Prefix{}, false
}

func (n *naive) largest() []network.Left {
	var all []network.Left
	for _, p := range n.parents {
		all = append(all, network.Left{Parent: p.ID, Largest: largestOf(p.CIDRs, n.held(nil))})
	}
	return all
}

func largestOf(cidrs []netip.Prefix, held [256]bool) int {
	for bits := range 33 {
		for _, c := range cidrs {
			for i := range 256 {
				if p := netip.PrefixFrom(at(i), bits); p.Masked() == p && whole(c, p, held) {
					return bits
				}
			}
		}
	}
	return -1
}

func (n *naive) applied(cluster string) []network.Applied {
	var all []network.Applied
	for _, r := range n.clusters[cluster] {
		all = append(all, r.Applied)
	}
	return all
}

func (n *naive) giveBack(cluster, request string) (returned network.Returned) {
	var kept []network.Record
	for _, r := range n.clusters[cluster] {
		relied := len(r.Requests)
		r.Requests = slices.DeleteFunc(slices.Clone(r.Requests), func(id string) bool {
			parts, of := strings.Split(id, "#"), strings.Split(request, "#")
			return len(parts) >= len(of) && slices.Equal(parts[:len(of)], of)
		})
		if relied > 0 && len(r.Requests) == 0 {
			returned.Gone = append(returned.Gone, r.Applied)
			continue
		}
		kept = append(kept, r)
		for _, id := range r.Requests {
			if parts := strings.Split(id, "#"); parts[0] == strings.Split(request, "#")[0] && !slices.Contains(returned.Kept, id) {
				returned.Kept = append(returned.Kept, id)
			}
		}
	}
	n.clusters[cluster] = kept
	return returned
}

func (n *naive) acquire(cluster, request string, rules []network.Rule) (network.Acquired, error) {
	var out network.Acquired
	before := slices.Clone(n.clusters[cluster])
	for _, rule := range rules {
		if slices.ContainsFunc(n.clusters[cluster], func(r network.Record) bool { return r.Rule == rule.ID }) {
			continue
		}
		if path, by := n.taken(cluster, rule); by != "" {
			out.Skipped = append(out.Skipped, network.Skipped{Rule: rule.ID, Path: path, By: by})
			continue
		}
		blocks, err := n.slice(rule)
		if err != nil {
			n.clusters[cluster] = before
			return network.Acquired{}, err
		}
		out.New = append(out.New, rule.ID)
		n.clusters[cluster] = append(n.clusters[cluster], network.Record{
			Cluster: cluster, Applied: network.Applied{Rule: rule.ID, Blocks: blocks},
		})
	}
	for i, r := range n.clusters[cluster] {
		if !slices.Contains(r.Requests, request) {
			n.clusters[cluster][i].Requests = append(slices.Clone(r.Requests), request)
		}
	}
	out.Applied = n.applied(cluster)
	return out, nil
}

func (n *naive) taken(cluster string, rule network.Rule) (path, by string) {
	users := map[string]string{}
	for _, r := range n.clusters[cluster] {
		for _, b := range r.Blocks {
			for _, p := range b.Paths {
				users[p] = r.Rule
			}
		}
	}
	for _, in := range rule.Injections {
		for _, p := range in.Paths {
			if users[p] != "" {
				return p, users[p]
			}
		}
	}
	return "", ""
}

func (n *naive) slice(rule network.Rule) ([]network.Block, error) {
	var blocks []network.Block
	for i, in := range rule.Injections {
		var sources []network.Parent
		for _, id := range in.Parents {
			source := network.Parent{ID: id}
			for _, b := range blocks {
				if b.ID == id {
					source.CIDRs = []netip.Prefix{b.CIDR}
				}
			}
			for _, p := range n.parents {
				if p.ID == id {
					source.CIDRs = p.CIDRs
				}
			}
			sources = append(sources, source)
		}
		if len(in.Parents) == 0 {
			sources = n.parents
		}
		block, ok := n.take(sources, in, blocks)
		if !ok {
			return nil, n.exhausted(rule, i, sources, blocks)
		}
		blocks = append(blocks, block)
	}
	return blocks, nil
}

// around returns the addresses that are taken for a slice from source. If source is a block of the rule
// itself, these are the slices of that block.
func (n *naive) around(source network.Parent, blocks []network.Block) [256]bool {
	for i, b := range blocks {
		if b.ID != "" && b.ID == source.ID {
			inner := slices.DeleteFunc(slices.Clone(blocks[i+1:]), func(o network.Block) bool { return !b.CIDR.Contains(o.CIDR.Addr()) })
			return newNaive().held(inner)
		}
	}
	return n.held(blocks)
}

func (n *naive) take(sources []network.Parent, in network.Injection, blocks []network.Block) (network.Block, bool) {
	for _, source := range sources {
		for _, c := range source.CIDRs {
			if p, ok := find(c, in.Size, n.around(source, blocks)); ok {
				return network.Block{ID: in.ID, CIDR: p, Paths: in.Paths}, true
			}
		}
	}
	return network.Block{}, false
}

func (n *naive) exhausted(rule network.Rule, i int, sources []network.Parent, blocks []network.Block) error {
	in := rule.Injections[i]
	e := &network.Exhausted{Rule: rule.ID, Injection: fmt.Sprint(i + 1), Path: in.Paths[0], Size: in.Size}
	if in.ID != "" {
		e.Injection = in.ID
	}
	own := 0 // blocks of the rule itself
	for _, source := range sources {
		e.Left = append(e.Left, network.Left{Parent: source.ID, Largest: largestOf(source.CIDRs, n.around(source, blocks))})
		if slices.ContainsFunc(blocks, func(b network.Block) bool { return b.ID != "" && b.ID == source.ID }) {
			own++
		}
	}
	hint := "add a CIDR to one of these parents, or delete clusters that have blocks there"
	switch own {
	case 0:
	case len(sources):
		hint = "enlarge the block of the rule's earlier injection, by a smaller subnetSize"
	default:
		hint += ", or enlarge the block of the rule's earlier injection, by a smaller subnetSize"
	}
	return &engine.Error{Code: engine.CodeNetworkExhausted, Err: e, Hint: hint}
}

// TestUnknownParent: rules whose parents are not set change nothing.
func TestUnknownParent(t *testing.T) {
	t.Parallel()
	s := network.NewSpace()
	s.SetParents([]network.Parent{{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}})
	rule := network.Rule{ID: "a", Injections: []network.Injection{
		{ID: "x", Paths: []string{"/a"}, Parents: []string{"foo"}, Size: 25},
		{Paths: []string{"/b"}, Parents: []string{"x", "gone"}, Size: 26},
	}}
	_, err := s.Acquire("c", "r", []network.Rule{rule})
	if !errors.Is(err, network.ErrUnknownParent) || engine.CodeOf(err) != engine.CodeInternal {
		t.Fatalf("the error is %v", err)
	}
	if left := s.Largest(); left[0].Largest != 24 || len(s.Applied("c")) > 0 {
		t.Fatalf("it left %v and %v", left, s.Applied("c"))
	}
}

// TestHolds: a block is held if any of its addresses is.
func TestHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, n := network.NewSpace(), newNaive()
		for _, p := range rapid.SliceOf(networktest.Foreign()).Draw(t, "foreign") {
			s.Block(p)
			n.foreign[p] = true
		}
		p := networktest.Foreign().Draw(t, "block")
		want := slices.ContainsFunc(slices.Collect(maps.Keys(n.foreign)), p.Overlaps)
		if got := s.Holds(p); got != want {
			t.Fatalf("%s beside %v: held %v", p, n.foreign, got)
		}
	})
}

// Two workers serve one waiting request at once. One finds no account and frees its blocks; the other keeps
// them, since it is about to answer with them.
func TestAttemptsRelyByThemselves(t *testing.T) {
	t.Parallel()
	s := network.NewSpace()
	s.SetParents([]network.Parent{{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}})
	rules := []network.Rule{{ID: "r", Injections: []network.Injection{{Paths: []string{"/a"}, Size: 28}}}}
	for _, worker := range []string{"one", "two"} {
		if _, err := s.Acquire("c", network.Attempt("request", worker), rules); err != nil {
			t.Fatal(err)
		}
	}
	other := []string{network.Attempt("request", "two")}
	if got := s.Return("c", network.Attempt("request", "one")); len(got.Gone) > 0 || len(s.Applied("c")) != 1 || !slices.Equal(got.Kept, other) {
		t.Errorf("%v is taken from under the other handler", got)
	}
	if got := s.Return("c", "request"); len(got.Gone) != 1 || len(s.Applied("c")) > 0 || len(got.Kept) > 0 {
		t.Errorf("the refused request gives back %v and keeps %v", got, s.Applied("c"))
	}
}
