package plans

import (
	"time"

	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/worker/config"
)

// Tenants are the tenants of all histories.
var Tenants = []string{"ga-1", "ga-2", "ga-3"}

// longest is the maximal wait of a request, also with the deadline FarOff.
const longest = 10 * time.Minute

// FarOff is a deadline that in UTC is beyond the years that a reply can encode.
var FarOff = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.FixedZone("", -3600))

// Settings are the part of the configuration that changes while workers run.
type Settings struct {
	Limit   int // of clusters for each account, 0 for none
	Timeout time.Duration
	Several bool // ga-1 and ga-2 may have several accounts; if false, ga-1 alone. Without Limit, no tenant may.
	Led     bool // the plan aws leads to the pool gcp
}

// Decisions returns the settings as a worker's configuration.
func (s Settings) Decisions() *terms.Decisions {
	c := config.Default()
	c.HAP.Waiting.Timeout, c.HAP.Waiting.Longest = s.Timeout, longest
	if s.Limit > 0 {
		c.HAP.MultiHyperscalerAccount.AllowedGlobalAccounts = []string{Tenants[0]}
		if s.Several {
			c.HAP.MultiHyperscalerAccount.AllowedGlobalAccounts = Tenants[:2]
		}
		c.HAP.MultiHyperscalerAccount.Limits = map[string]int{config.DefaultLimit: s.Limit}
	}
	if s.Led {
		c.HAP.Plans = map[string]config.Plan{"aws": {Providers: []string{"gcp"}}}
	}
	decisions, err := c.Decisions()
	if err != nil {
		panic(err)
	}
	return decisions
}

// MayHaveSeveral reports whether the tenant may have several accounts in some configuration of the history.
func (s Settings) MayHaveSeveral(tenant string) bool {
	return s.Limit > 0 && (tenant == Tenants[0] || tenant == Tenants[1])
}
