package campaign_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/worker/simulation/campaign"
)

// TestNoHistory: a campaign that a signal ends before its first history has a report, too.
func TestNoHistory(t *testing.T) {
	t.Parallel()
	r := campaign.Campaign{Seed: 7}.Run(t)
	if got, want := r.String(), "0 histories from seed 7 in 0s: 0 a second, 0 events in the median, 0 steps, 0s simulated, 0 failed\n"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
