package inspect

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// TestUnbuiltPool: an unknown count is null in JSON, and a dash in the table and in a sentence.
func TestUnbuiltPool(t *testing.T) {
	t.Parallel()
	at := view.Place{Pool: "aws", Binding: "b"}
	of := []engine.Binding{{Name: at.Binding, HyperscalerType: at.Pool, Dirty: true, Cordoned: true}}
	l := view.SideBySide(view.Records{Known: map[view.Place]account.Record{}, Pools: map[string]account.Status{"aws": {}}}, of, view.Terms{})
	detail, err := poolOf(l, "aws", "", view.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(detail)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"built":false`, `"bindings":1,"free":null,"claimed":null,"draining":null,"dirty":null,"internal":0,"cordoned":1,"deleting":0,"duplicates":0,"clusters":null,`,
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
	if told, want := accountText(&l.Bindings[0]), "b is unknown with – clusters; its label names no tenant; dirty,cordoned"; told != want {
		t.Errorf("it is told %q, want %q", told, want)
	}
}

// TestInForce: the reply with the highest decision number is in force, whichever was stored last.
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
