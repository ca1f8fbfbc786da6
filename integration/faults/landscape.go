package faults

import (
	"fmt"
	"time"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// Config is the configuration of the workers without addresses. Its times are short, so that they expire during a
// run. waiting is how long a request may wait for an account.
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

// The numbers of tenants that may have one account in each pool (one-N), and several (many-N).
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

// Accounts are fewer than the tenants want, so that requests wait. Each dedicated pool has an internal one, which must
// not be assigned.
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

// token is a pool's name in the form of an object's name.
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
