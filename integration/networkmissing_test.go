package integration_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
)

// allRules give every cluster a /28.
const allRules = `
parentCIDRs: {foo: [10.27.0.0/16]}
injectionRules: [{id: all, injections: [{path: .spec.network.cidr, parents: [foo], subnetSize: 28}]}]
`

// unconfigured is a landscape whose IPAMConfig is not there.
func unconfigured(t *testing.T, more string) *networked {
	t.Helper()
	n := &networked{name: fmt.Sprintf("ipam-%d", ipams.Add(1))}
	n.landscape = newLandscape(t, oneAccountRules+fmt.Sprintf("network: {config: %s%s}\n", n.name, more), accounts("aws", 3))
	t.Cleanup(func() {
		_ = n.api.Resource(ipamConfigs).Delete(n.ctx, n.name, metav1.DeleteOptions{})
	})
	return n
}

// TestNetworkPending: without an IPAMConfig a request is answered, the answer says that
// ranges are pending, and a further reply has them once there are rules.
func TestNetworkPending(t *testing.T) {
	t.Parallel()
	n := unconfigured(t, "")
	n.work(daemon.Options{})
	e := cluster("rt-1", "ga-1", nil, nil)
	n.provision(e)
	if r := n.answered(e); r.Status != events.StatusAssigned || !r.NetworkPending || len(r.Network) > 0 {
		t.Fatalf("without rules: %+v", r)
	}
	n.configure(allRules)
	eventually(n.ctx, t, func() error {
		if r := n.reply(n.subjects.Reply("rt-1", e.ID+"-net1")); r.Status != events.StatusAssigned || r.NetworkPending || len(r.Network) != 1 {
			return fmt.Errorf("with rules: %+v", r)
		}
		return nil
	})
}

// TestNetworkRequired: where ranges are required, a request waits for the IPAMConfig, with
// the reason, and has an answer with ranges once it is there; at its deadline it is refused.
func TestNetworkRequired(t *testing.T) {
	t.Parallel()
	n := unconfigured(t, ", required: true")
	n.work(daemon.Options{})
	late, e := cluster("rt-late", "ga-1", nil, nil), cluster("rt-1", "ga-1", nil, nil)
	late.Provision.Deadline = time.Now().Add(3 * time.Second)
	n.provision(late)
	if r := n.answered(late); r.Status != events.StatusRejected || r.Error.Code != engine.CodeNetworkExhausted {
		t.Errorf("at the deadline: %+v", r)
	}
	n.provision(e)
	if r := n.waits(e); r.Waiting.Reason != events.WaitingNetworkMissing {
		t.Errorf("it waits for %+v", r.Waiting)
	}
	n.configure(allRules)
	if r := n.answered(e); r.Status != events.StatusAssigned || r.NetworkPending || len(r.Network) != 1 {
		t.Errorf("with rules: %+v", r)
	}
}
