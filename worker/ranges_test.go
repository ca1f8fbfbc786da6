package worker

import (
	"net/netip"
	"testing"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// Two workers serve one request that waits. What the one gives back, which found no
// account, is what the other one answers with; once the answer is a refusal, nothing
// of either is left.
func TestHandlersOfARequestGiveBackTheirOwn(t *testing.T) {
	t.Parallel()
	parent := network.Parent{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}
	config := &network.Config{Parents: []network.Parent{parent}, Rules: []network.Rule{{
		ID: "all", Injections: []network.Injection{{Paths: []string{"/a"}, Parents: []string{"foo"}, Size: 28}},
	}}}
	space := &spaceFake{space: network.NewSpace()}
	space.space.SetParents(config.Parents)
	var freed wanted
	w := New(Options{Ranges: space, Networks: configFake{config}, Extend: &freed})
	event := events.Event{Type: events.TypeProvision, ID: "request", RuntimeID: "rt", Provision: &events.Provision{RuntimeID: "rt"}}
	one, two := &delivery{event: event}, &delivery{event: event}
	for _, d := range []*delivery{one, two, one} {
		if applied, full, err := w.acquire(t.Context(), d); len(applied) != 1 || full != nil || err != nil {
			t.Fatal(applied, full, err)
		}
	}
	if err := w.giveBack(t.Context(), one); err != nil || len(space.space.Applied("rt")) != 1 {
		t.Errorf("the other handler has %v, %v", space.space.Applied("rt"), err)
	}
	if err := w.giveBackAll(t.Context(), event); err != nil || len(space.space.Applied("rt")) != 0 {
		t.Errorf("the refused request keeps %v, %v", space.space.Applied("rt"), err)
	}
}
