package operator

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// TestSideBySide: what an account is, and where Redis and Gardener differ.
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
		v := newBindingView(place{c.pool, "b"}, c.b, c.rec, terms{})
		if v.State != c.state || !slices.Equal(v.Differences, c.want) {
			t.Errorf("%s: state %s, differences %q; want %s, %q", name, v.State, v.Differences, c.state, c.want)
		}
	}
}

// TestUnbuiltPool: what cannot be counted is null in JSON and a dash in the table.
func TestUnbuiltPool(t *testing.T) {
	t.Parallel()
	at := place{"aws", "b"}
	of := []engine.Binding{{Name: at.binding, HyperscalerType: at.pool, Dirty: true, Cordoned: true}}
	l := sideBySide(records{known: map[place]account.Record{}, pools: map[string]account.Status{"aws": {}}}, of, terms{})
	detail, err := l.pool("aws", "", terms{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(detail)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"built":false`, `"bindings":1,"free":null,"claimed":null,"draining":null,"dirty":null,"internal":0,"cordoned":1,"deleting":0,"clusters":null,`,
		`"tenants":null,"waiting":null,"differences":null,"standings":{"unknown":1}`, `"state":"dirty","standing":"unknown","clusters":null`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("JSON lacks %s:\n%s", want, text)
		}
	}
	want := []string{"aws", "–", "–", "–", "-", "–", "–", "not built", "aws", "-", "-", "1", "–", "–", "0", "1", "–", "-", "–"}
	if row := detail.row(true); !slices.Equal(row, want) {
		t.Errorf("the row is %q, want %q", row, want)
	}
}

// TestInForce: of a runtime's replies the highest decision counts, whichever was
// stored last.
func TestInForce(t *testing.T) {
	t.Parallel()
	reply := func(id string, stored uint64, sequence int64) ledgerReply {
		return ledgerReply{StreamSequence: stored, Reply: events.Reply{RequestID: id, Decision: &events.Decision{Sequence: sequence}}}
	}
	replies := []ledgerReply{
		reply("released", 1, 9), reply("late", 2, 4),
		{StreamSequence: 3, Reply: events.Reply{RequestID: "no-rule", Status: events.StatusRejected}},
	}
	markInForce(replies)
	var order []string
	for _, r := range replies {
		order = append(order, r.Reply.RequestID)
		if r.InForce != (r.Reply.RequestID == "released") {
			t.Errorf("%s: in force %t", r.Reply.RequestID, r.InForce)
		}
	}
	if want := []string{"no-rule", "late", "released"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

// TestQuoteWord: what is shown can be given to a shell.
func TestQuoteWord(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"cap.interface.db:0.1.0": "cap.interface.db:0.1.0", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'",
	} {
		if got := quoteWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
