package ranges

import (
	"context"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// wanted counts calls.
type wanted int

func (w *wanted) Wanted()     { *w++ }
func (w *wanted) Soon(string) { *w++ }
func (w *wanted) Freed()      {}

// An answer by an older configuration may be stored after the pass for the new one has read the ledger. So
// Stored requests that its cluster is served.
func TestExtendAfterALateAnswer(t *testing.T) {
	t.Parallel()
	before, now := &network.Config{}, &network.Config{}
	for _, c := range []struct {
		name   string
		by     *network.Config
		status events.Status
		want   wanted
	}{
		{"by the configuration of now", now, events.StatusAssigned, 0},
		{"by one before", before, events.StatusAssigned, 1},
		{"before there was any", nil, events.StatusAssigned, 1},
		{"waits", before, events.StatusWaiting, 0},
	} {
		var asked wanted
		a := &Allotter{Networks: configFake(now), Late: &asked}
		a.Stored(events.Reply{Status: c.status}, Held{config: c.by})
		if asked != c.want {
			t.Errorf("%s: asked %d times, want %d", c.name, asked, c.want)
		}
	}
}

// A worker that finds its answer stored does not know by which configuration it was decided. It requests that the
// cluster is served if the answer does not have what the rules allot to it now.
func TestStoredAnswerWithoutARule(t *testing.T) {
	t.Parallel()
	config := &network.Config{Rules: []network.Rule{{ID: "a", Injections: []network.Injection{{Paths: []string{"/a"}, Size: 28}}}, {ID: "idle"}}}
	for _, c := range []struct {
		name   string
		config *network.Config
		reply  events.Reply
		want   wanted
	}{
		{"has all", config, events.Reply{Status: events.StatusAssigned, Network: []events.Network{{Rule: "a", CIDR: "10.0.0.0/28"}}}, 0},
		{"lacks one", config, events.Reply{Status: events.StatusAssigned}, 1},
		{"has its path by another rule", config, events.Reply{Status: events.StatusAssigned, Network: []events.Network{{Rule: "b", CIDR: "10.0.0.0/28", Paths: []string{"/a"}}}}, 0},
		{"there are no rules", nil, events.Reply{Status: events.StatusAssigned}, 0},
		{"is refused", config, events.Reply{Status: events.StatusRejected}, 0},
	} {
		var asked wanted
		a := &Allotter{Networks: configFake(c.config), Late: &asked}
		if a.Stands(c.reply); asked != c.want {
			t.Errorf("%s: asked %d times, want %d", c.name, asked, c.want)
		}
	}
}

// Without network configuration there is no allotter, and every call of it is a no-op.
func TestNoAllotter(t *testing.T) {
	t.Parallel()
	var none *Allotter
	e := events.Event{RuntimeID: "rt", Provision: &events.Provision{}}
	if held, err := none.Acquire(t.Context(), e, "a"); len(held.Blocks())+len(held.Patch()) > 0 || held.Full != nil || err != nil {
		t.Errorf("acquired %v, %v", held, err)
	}
	if freed, _, err := none.Return(t.Context(), e, "a"); freed || err != nil {
		t.Errorf("returned %v, %v", freed, err)
	}
	if freed, err := none.Release(t.Context(), "rt"); freed || err != nil {
		t.Errorf("released %v, %v", freed, err)
	}
	none.Stored(events.Reply{Status: events.StatusAssigned}, Held{})
	if none.Allots() {
		t.Error("it allots")
	}
}

// TestWithoutRules: while there are no rules, an answer says that blocks are pending. If they are required,
// the request waits.
func TestWithoutRules(t *testing.T) {
	t.Parallel()
	event := events.Event{Type: events.TypeProvision, ID: "request", RuntimeID: "rt", Provision: &events.Provision{RuntimeID: "rt"}}
	a := &Allotter{Networks: configFake(nil), Blocks: noBlocks{}}
	held, err := a.Acquire(t.Context(), event, "request")
	if !held.Missing || held.Full != nil || err != nil {
		t.Errorf("not required: %+v, %v", held, err)
	}
	a.Required, a.Blocks = true, nil // nil: a call would panic
	held, err = a.Acquire(t.Context(), event, "request")
	if !held.Missing || engine.CodeOf(held.Full) != engine.CodeNetworkExhausted || err != nil {
		t.Errorf("required: %+v, %v", held, err)
	}
	a.Networks, a.Blocks = configFake(&network.Config{}), noBlocks{}
	if held, err = a.Acquire(t.Context(), event, "request"); held.Missing || held.Full != nil || err != nil {
		t.Errorf("there by now: %+v, %v", held, err)
	}
}

type noBlocks struct{ Allocator }

func (noBlocks) Acquire(context.Context, string, string, []network.Rule) (network.Acquired, error) {
	return network.Acquired{}, nil
}
