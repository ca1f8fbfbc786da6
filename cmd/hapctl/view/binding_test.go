package view

import (
	"slices"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestSideBySide: the state of an account, and the differences between Redis and Gardener.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	aws := engine.Binding{Name: "b", HyperscalerType: "aws"}
	with := func(b engine.Binding, change func(*engine.Binding)) *engine.Binding {
		change(&b)
		return &b
	}
	claimed := account.Record{State: account.InUse, Tenant: "t", Generation: 2, Confirmed: true, Count: 4}
	as := func(r account.Record, change func(*account.Record)) *account.Record {
		change(&r)
		return &r
	}
	labelled := with(aws, func(b *engine.Binding) { b.Tenant, b.Generation = "t", 2 })
	free := &account.Record{State: account.Free}
	for name, c := range map[string]struct {
		pool  string
		b     *engine.Binding
		rec   *account.Record
		state string
		want  []string
	}{
		"free":             {"aws", &aws, free, "free", nil},
		"claimed":          {"aws", labelled, &claimed, "claimed", nil},
		"not built":        {"aws", labelled, nil, "unknown", nil},
		"internal":         {"aws", with(aws, func(b *engine.Binding) { b.Internal = true }), free, "held", nil},
		"shared":           {"aws+shared", with(aws, func(b *engine.Binding) { b.Shared = true }), free, "shared", nil},
		"claim on its way": {"aws", &aws, as(claimed, func(r *account.Record) { r.State, r.Confirmed = account.Claiming, false }), "claiming", nil},
		"label is lost":    {"aws", &aws, &claimed, "claimed", []string{"tenant: Redis t, label none", "generation: Redis 2, annotation 0"}},
		"another tenant":   {"aws", with(*labelled, func(b *engine.Binding) { b.Tenant = "u" }), &claimed, "claimed", []string{"tenant: Redis t, label u"}},
		"labelled by hand": {"aws", labelled, free, "labelled", []string{"Redis has it free, its labels say tenant t"}},
		"dirty by hand":    {"aws", with(*labelled, func(b *engine.Binding) { b.Dirty = true }), &claimed, "dirty", []string{"the label says dirty, Redis has it claimed"}},
		"dirty": {"aws", with(*labelled, func(b *engine.Binding) { b.Dirty = true }),
			as(claimed, func(r *account.Record) { r.State, r.Count = account.Dirtying, 0 }), "dirty", nil},
		"mark is lost": {"aws", labelled, as(claimed, func(r *account.Record) { r.State, r.Count = account.Dirtying, 0 }), "dirtying",
			[]string{"Redis has it on its way to dirty, the label is not there"}},
		"deleted": {"aws", nil, &claimed, "missing", []string{"Gardener has no such binding, Redis has it claimed with 4 clusters"}},
		"moved under its claim": {"aws", with(*labelled, func(b *engine.Binding) { b.ClaimedIn, b.HyperscalerType = "aws", "gcp" }), &claimed, "claimed",
			[]string{"its labels put it into pool gcp, where it goes when it is released"}},
		"in another pool": {"gcp", labelled, &claimed, "claimed", []string{"its labels put it into pool aws, Redis has it in gcp with 4 clusters"}},
	} {
		v := NewBinding(Place{c.pool, "b"}, c.b, c.rec, Terms{})
		if v.State != c.state || !slices.Equal(v.Differences, c.want) {
			t.Errorf("%s: state %s, differences %q; want %s, %q", name, v.State, v.Differences, c.state, c.want)
		}
	}
}
