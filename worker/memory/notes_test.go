package memory_test

import (
	"net/netip"
	"testing"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/memory"
)

// Notes do not change the ClusterConfigs and Clusters of another allocator. Remove finds all records of a
// runtime.
func TestNotes(t *testing.T) {
	t.Parallel()
	of := func(runtime, rule, cidr string) network.Note {
		return network.Note{Runtime: runtime, Cluster: network.Identity{Name: "c", Namespace: "n"}, Applied: []network.Applied{
			{Rule: rule, Blocks: []network.Block{{CIDR: netip.MustParsePrefix(cidr), Paths: []string{"/" + rule}}}},
		}}
	}
	n := memory.NewNotes()
	n.Put(network.Note{Cluster: network.Identity{Name: "c", Namespace: "n"}})
	if _, err := n.Write(t.Context(), of("", "z", "10.0.0.48/28")); err != nil { // another allocator's
		t.Fatal(err)
	}
	for _, c := range []struct {
		note           network.Note
		changed, taken int
	}{
		{of("rt-1", "z", "10.0.0.64/28"), 0, 2},
		{of("rt-1", "a", "10.0.0.0/28"), 2, 0}, // the ClusterConfig and the Cluster
		{of("rt-1", "a", "10.0.0.0/28"), 0, 0},
		{of("rt-1", "b", "10.0.0.16/28"), 2, 0},
		{of("rt-2", "a", "10.0.0.32/28"), 0, 2},
	} {
		noted, err := n.Write(t.Context(), c.note)
		if err != nil || noted.Changed != c.changed || len(noted.Taken) != c.taken {
			t.Errorf("%+v: %+v, %v", c.note, noted, err)
		}
	}
	for runtime, want := range map[string]int{"rt-2": 0, "rt-1": 3} {
		if changed, err := n.Remove(t.Context(), network.Note{Runtime: runtime}); err != nil || changed != want {
			t.Errorf("of %s %d objects were removed, %v; want %d", runtime, changed, err, want)
		}
	}
	all, err := n.All(t.Context())
	if err != nil || len(all.Configs) != 1 || len(all.Clusters) != 1 || len(all.Clusters[0].Applied) != 1 {
		t.Errorf("left is %+v, %v", all, err)
	}
}
