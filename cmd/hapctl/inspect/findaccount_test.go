package inspect

import (
	"slices"
	"testing"

	"github.com/hap-worker/hap-worker/events"
)

// TestTimelineOfRepeats: the timeline says of a reply that it repeats a decision; replies without one do not.
func TestTimelineOfRepeats(t *testing.T) {
	t.Parallel()
	reply := func(status events.Status, runtime string, d *events.Decision) ledgerReply {
		return ledgerReply{Reply: events.Reply{Status: status, RuntimeID: runtime, Decision: d, Binding: &events.Binding{Name: "aws-1"}}}
	}
	var texts []string
	for _, m := range timeline([]ledgerReply{
		reply(events.StatusAssigned, "rt-1", &events.Decision{Pool: "aws", Sequence: 1}),
		reply(events.StatusAssigned, "rt-1", &events.Decision{Pool: "aws", Sequence: 1}),
		reply(events.StatusReleased, "rt-1", &events.Decision{Pool: "aws", Sequence: 2}),
		reply(events.StatusReleased, "rt-1", &events.Decision{Pool: "aws", Sequence: 2}),
		reply(events.StatusAssigned, "rt-2", &events.Decision{Pool: "azure", Sequence: 2}),
		reply(events.StatusAssigned, "rt-3", nil),
		reply(events.StatusAssigned, "rt-4", nil),
	}) {
		texts = append(texts, m.Text)
	}
	repeat := "repeats an earlier answer"
	want := []string{"got a cluster", repeat, "lost a cluster", repeat, "got a cluster", "got a cluster", "got a cluster"}
	if !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}
