package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
)

func TestRangesShown(t *testing.T) {
	t.Parallel()
	cidr := netip.MustParsePrefix
	state := network.State{
		Parents: []network.Parent{{ID: "foo", CIDRs: []netip.Prefix{cidr("10.27.0.0/16"), cidr("10.30.0.0/24")}}, {ID: "bar", CIDRs: []netip.Prefix{cidr("10.28.0.0/24")}}},
		Records: []network.Record{{Cluster: "a", Applied: network.Applied{Blocks: []network.Block{{CIDR: cidr("10.27.0.0/28")}, {CIDR: cidr("10.28.0.16/28")}}}}},
		Foreign: []netip.Prefix{cidr("10.30.0.0/20"), cidr("10.99.0.0/16")},
	}
	now, reads, fails := time.Unix(0, 0), 0, error(nil)
	shown := &rangesShown{now: func() time.Time { return now }, read: func(context.Context) (network.State, error) {
		reads++
		return state, fails
	}}
	for range 3 {
		parents, err := shown.Parents(t.Context())
		const want = "[{foo 10.27.0.0/16 [10.27.0.0/28]} {foo 10.30.0.0/24 [10.30.0.0/24]} {bar 10.28.0.0/24 [10.28.0.16/28]}]"
		if got := fmt.Sprint(parents); err != nil || got != want {
			t.Errorf("shown are %s, %v, want %s", got, err, want)
		}
	}
	now = now.Add(rangesEvery)
	if _, err := shown.Parents(t.Context()); err != nil || reads != 2 {
		t.Errorf("%d readings, %v, want two", reads, err)
	}
	now, fails = now.Add(rangesEvery), errors.New("no route")
	if _, err := shown.Parents(t.Context()); err == nil {
		t.Error("a reading that failed is not told")
	}
	fails = fmt.Errorf("ranges: %w", account.ErrNotBuilt)
	if parents, err := shown.Parents(t.Context()); err != nil || parents != nil {
		t.Errorf("before they are built: %v, %v", parents, err)
	}
}
