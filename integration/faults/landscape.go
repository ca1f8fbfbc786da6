package faults

import (
	"fmt"
	"time"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// Config is the workers', without where the parts are: short times, so that every
// end of a time is met. Waiting is how long a request may wait for an account.
func Config(waiting time.Duration) string {
	return stack.InitialRules + fmt.Sprintf(`
  multiHyperscalerAccount:
    allowedGlobalAccounts: [many-0, many-1, many-2, many-3, many-4, many-5]
    limits: {default: 3}
  waiting: {timeout: %s}
worker: {concurrency: 16, ackWait: 4s, budget: 3s, drain: 3s, reconcile: {interval: 1m}}
gardener: {budget: 5s}
telemetry: {logLevel: debug}
`, waiting)
}

// The tenants: those of one account are named one-N, those of several many-N.
const oneTenants, manyTenants = 8, 6

func tenants() []string {
	var names []string
	for n := range oneTenants {
		names = append(names, fmt.Sprintf("one-%d", n))
	}
	for n := range manyTenants {
		names = append(names, fmt.Sprintf("many-%d", n))
	}
	return names
}

func several() map[string]bool {
	names := map[string]bool{}
	for n := range manyTenants {
		names[fmt.Sprintf("many-%d", n)] = true
	}
	return names
}

// Accounts are fewer than the tenants want, so that requests wait; each pool has
// an internal one, which no tenant may get.
func Accounts() []stack.Account {
	var all []stack.Account
	add := func(name, kind string, n int, labels map[string]string) {
		for i := range n {
			all = append(all, stack.Account{Name: fmt.Sprintf("%s-%02d", name, i+1), HyperscalerType: kind, Labels: labels})
		}
	}
	for _, pool := range []struct {
		name string
		n    int
	}{{"aws", 12}, {"azure", 9}, {"gcp", 6}, {"gcp_cf-sa30", 5}} {
		add(token(pool.name), pool.name, pool.n, nil)
		add(token(pool.name)+"-internal", pool.name, 1, map[string]string{"internal": "true"})
	}
	add("aws-shared", "aws", 2, map[string]string{"shared": "true"})
	return all
}

// token is a pool's name as an object's name may have it.
func token(pool string) string {
	if pool == "gcp_cf-sa30" {
		return "gcp-sa30"
	}
	return pool
}

// wish is a kind of cluster that tenants ask for.
type wish struct{ plan, platformRegion, provider string }

func wishes() []wish {
	return []wish{
		{"aws", "cf-us10", ""},
		{"aws", "cf-eu20", ""},
		{"azure", "cf-eu20", ""},
		{"azure", "cf-us20", ""},
		{"gcp", "cf-eu30", ""},
		{"gcp", "cf-sa30", ""},
		{"trial", "cf-us10", "aws"},
	}
}
