package network

import (
	"net/netip"
	"slices"
	"testing"
)

// TestLastingConflicts: a block that went from one cluster to another between two pages of a reading is no conflict.
func TestLastingConflicts(t *testing.T) {
	t.Parallel()
	record := func(cluster, cidr string) Record {
		return Record{Cluster: cluster, Applied: Applied{Rule: "pods", Blocks: []Block{{CIDR: netip.MustParsePrefix(cidr)}}}}
	}
	torn := State{Records: []Record{record("c-1", "10.0.0.0/24"), record("c-2", "10.0.0.0/24"), record("c-3", "10.1.0.0/24"), record("c-4", "10.1.0.0/25")}}
	later := State{Records: torn.Records[1:]}
	found := torn.Conflicts()
	if lasting := later.Lasting(found); len(found) != 2 || len(lasting) != 1 || !slices.Contains(found, lasting[0]) {
		t.Errorf("of the conflicts\n%q\nlast\n%q", found, lasting)
	}
}
