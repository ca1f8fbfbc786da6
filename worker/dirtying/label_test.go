package dirtying

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine"
)

// The claim of ga with generation 3 has ended, and no Shoot refers to its account (rule 8).
func TestLeftBy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		label engine.Binding
		shown Marking
		open  bool
	}{
		{"its own claim", engine.Binding{Tenant: "ga", Generation: 3}, Unmarked, true},
		{"an older claim of the tenant's, ours was not written", engine.Binding{Tenant: "ga", Generation: 2}, Unmarked, true},
		{"unclaimed, ours was not written", engine.Binding{Generation: 2}, Unmarked, true},
		{"marked already", engine.Binding{Tenant: "ga", Generation: 3, Dirty: true}, Marked, false},
		{"marked for an older claim", engine.Binding{Tenant: "ga", Generation: 2, Dirty: true}, Unmarked, false},
		{"marked for another tenant", engine.Binding{Tenant: "gb", Generation: 3, Dirty: true}, Unmarked, false},
		{"marked by hand, unclaimed", engine.Binding{Generation: 3, Dirty: true}, Unmarked, false},
		{"released meanwhile", engine.Binding{Generation: 3}, Unmarked, false},
		{"claimed anew by the tenant", engine.Binding{Tenant: "ga", Generation: 4}, Unmarked, false},
		{"another tenant's", engine.Binding{Tenant: "gb", Generation: 3}, Unmarked, false},
		{"shared", engine.Binding{Tenant: "ga", Generation: 3, Shared: true}, Unmarked, false},
		{"internal", engine.Binding{Tenant: "ga", Generation: 3, Internal: true}, Unmarked, false},
		{"cordoned: it is returned all the same", engine.Binding{Tenant: "ga", Generation: 3, Cordoned: true}, Unmarked, true},
	} {
		if shown, open := leftBy(c.label, "gcp", "ga", 3); shown != Unmarked || open {
			t.Errorf("%s, in another pool: shows %v and is open %t", c.name, shown, open)
		}
		if shown, open := leftBy(c.label, c.label.LabelledPool().Name(), "ga", 3); shown != c.shown || open != c.open {
			t.Errorf("%s: shows %v and is open %t, want %v and %t", c.name, shown, open, c.shown, c.open)
		}
	}
}

func TestSameClaim(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tenant     string
		generation int64
		same       bool // as the claim of ga with generation 3
	}{
		{"ga", 2, true}, {"ga", 3, true}, {"ga", 4, false},
		{"", 2, true}, {"", 3, false}, {"", 4, false},
		{"gb", 2, false}, {"gb", 3, false},
	} {
		if got := sameClaim(engine.Binding{Tenant: c.tenant, Generation: c.generation}, "ga", 3); got != c.same {
			t.Errorf("a label of %q with generation %d: %t, want %t", c.tenant, c.generation, got, c.same)
		}
	}
}
