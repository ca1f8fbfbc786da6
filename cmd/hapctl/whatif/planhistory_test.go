package whatif

import (
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// TestYoungLedger: the history of a ledger is no longer than the ledger is old, and has no reply that is newer than
// its end.
func TestYoungLedger(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		ages   []time.Duration // of the replies
		length time.Duration
		short  bool
	}{
		"empty":                 {nil, 0, true},
		"all is newer":          {[]time.Duration{-time.Second}, 0, true},
		"young":                 {[]time.Duration{time.Hour, time.Minute, -time.Second}, time.Hour, true},
		"older than the window": {[]time.Duration{9 * 24 * time.Hour, time.Hour}, 7 * 24 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const window = 7 * 24 * time.Hour
			h := &history{Since: until.Add(-window), Until: until}
			g := historian{of: h, clusters: map[string]*historyCluster{}}
			for _, age := range c.ages {
				stored := events.Stored{Time: until.Add(-age), Reply: events.Reply{RuntimeID: age.String(), Status: events.StatusAssigned, Decision: &events.Decision{Pool: "aws"}}}
				if err := g.see(stored); err != nil {
					t.Fatal(err)
				}
			}
			g.finish()
			if length := h.Until.Sub(h.Since); length != c.length || (h.short(window) != "") != c.short {
				t.Errorf("the history is of %s, want %s, and says %q", length, c.length, h.short(window))
			}
			for _, one := range h.Clusters {
				if one.Begin.After(until) {
					t.Errorf("a cluster begins at %s, after the end of the history", one.Begin)
				}
			}
		})
	}
}
