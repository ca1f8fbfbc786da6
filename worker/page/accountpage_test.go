package page

import (
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// TestTenureGoesOn is an account that drains and gains a cluster of its tenant again: it is not empty.
func TestTenureGoesOn(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	reply := func(minute int, r events.Reply) events.Stored {
		r.GlobalAccountID, r.Binding = "ga-1", &events.Binding{Name: "b-1"}
		return events.Stored{Reply: r, Time: at.Add(time.Duration(minute) * time.Minute)}
	}
	first := events.Reply{Status: events.StatusAssigned, RuntimeID: "rt-1"}
	left := events.Reply{Status: events.StatusReleased, RuntimeID: "rt-1", Draining: true}
	again := events.Reply{Status: events.StatusAssigned, RuntimeID: "rt-2"}
	for name, c := range map[string]struct {
		replies []events.Stored // the newest first
		emptied time.Time
	}{
		"it drains":            {[]events.Stored{reply(2, left), reply(1, first)}, at.Add(2 * time.Minute)},
		"its tenant came back": {[]events.Stored{reply(3, again), reply(2, left), reply(1, first)}, time.Time{}},
	} {
		all := tenures(c.replies)
		if len(all) != 1 || !all[0].Emptied.Equal(c.emptied) {
			t.Errorf("%s: %+v", name, all)
		}
	}
}
