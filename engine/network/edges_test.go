package network_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/network"
)

// TestEdgesOfAddresses: the arithmetic holds for every size and address, even for those that no configuration
// may name.
func TestEdgesOfAddresses(t *testing.T) {
	t.Parallel()
	s := network.NewSpace()
	s.SetParents([]network.Parent{
		{ID: "all", CIDRs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}},
		{ID: "last", CIDRs: []netip.Prefix{netip.MustParsePrefix("255.255.255.254/31")}},
	})
	slice := func(cluster, parent string, size int) string {
		got, err := s.Acquire(cluster, "r-"+cluster, []network.Rule{{ID: parent, Injections: []network.Injection{
			{Paths: []string{"/p"}, Parents: []string{parent}, Size: size},
		}}})
		if err != nil {
			return err.Error()
		}
		return got.Applied[0].Blocks[0].CIDR.String()
	}
	for _, step := range []struct {
		cluster, parent string
		size            int
		want            string
	}{
		{"a", "last", 32, "255.255.255.254/32"},
		{"b", "last", 32, "255.255.255.255/32"},
		{"c", "last", 32, "rule last, injection 1 (/p): no /32 is free: last has nothing left; add a CIDR to one of these parents, or delete clusters that have blocks there"},
		{"d", "all", 1, "0.0.0.0/1"},
		{"e", "all", 32, "255.255.255.252/32"},
		{"f", "all", 1, "rule all, injection 1 (/p): no /1 is free: the largest block left in all is a /2; add a CIDR to one of these parents, or delete clusters that have blocks there"},
	} {
		if got := slice(step.cluster, step.parent, step.size); got != step.want {
			t.Errorf("a /%d of %s for %s: %s, want %s", step.size, step.parent, step.cluster, got, step.want)
		}
	}
}

// TestShortRefresh: a refresh cycle that would be without a pause counts as a second.
func TestShortRefresh(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"1ns": time.Second, "999ms": time.Second, "1s": time.Second, "24h": 24 * time.Hour, "0s": 0} {
		config, _, err := network.Parse([]byte("{internalStateRefreshCycleDuration: " + text + "}"))
		if err != nil || config.Refresh != want {
			t.Errorf("%s: %+v, %v", text, config, err)
		}
	}
}
