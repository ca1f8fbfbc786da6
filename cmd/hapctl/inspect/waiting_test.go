package inspect

import (
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/events"
)

// TestNoPlace: a request without a place in the queue is told what it is tried again by.
func TestNoPlace(t *testing.T) {
	t.Parallel()
	for reason, want := range map[events.WaitingReason]string{
		events.WaitingUnavailable:    "Gardener answers",
		events.WaitingNetworkFull:    "network",
		events.WaitingNetworkMissing: "network rules",
		events.WaitingPoolEmpty:      "not in the queue",
	} {
		got := (&waitingView{Reason: reason}).place()
		if !strings.Contains(got, want) || reason != events.WaitingUnavailable && strings.Contains(got, "Gardener") {
			t.Errorf("%s: the place is %q", reason, got)
		}
	}
}
