package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// TestPlaces: a request has its place in the queue and the requests right before it, and one outside of the queue
// has neither.
func TestPlaces(t *testing.T) {
	t.Parallel()
	var queue []account.Waiter
	for n := range 8 {
		queue = append(queue, account.Waiter{Runtime: fmt.Sprint("rt-", n)})
	}
	l := newLine(queue, true)
	for runtime, want := range map[string]string{
		"rt-0": "1 []", "rt-2": "3 [rt-0 rt-1]", "rt-7": "8 [rt-2 rt-3 rt-4 rt-5 rt-6]", "rt-none": "0 []",
	} {
		v := l.view(storage.WaitingRequest{Event: events.Event{RuntimeID: runtime, Provision: &events.Provision{}}})
		behind := []string{}
		for _, w := range v.Behind {
			behind = append(behind, w.RuntimeID)
		}
		if got := fmt.Sprint(v.Position, " ", behind); got != want || !v.Paused {
			t.Errorf("%s: %s, want %s", runtime, got, want)
		}
	}
}

// TestNoPlace: a request without a place in the queue is told what it is tried again by.
func TestNoPlace(t *testing.T) {
	t.Parallel()
	for reason, want := range map[events.WaitingReason]string{
		events.WaitingUnavailable:    "until Gardener takes",
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
