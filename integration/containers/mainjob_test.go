package containers_test

import (
	"fmt"
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/integration/checker"
)

// TestMainJob follows an account: it is claimed for a tenant's first cluster, gets the tenant's second one, is dirty
// once both are gone, and free again after the cleanup job has released it.
func TestMainJob(t *testing.T) {
	t.Parallel()
	for resource, kind := range map[gardener.Resource]string{
		gardener.CredentialsBindings: "CredentialsBinding", gardener.SecretBindings: "SecretBinding",
	} {
		t.Run(string(resource), func(t *testing.T) {
			t.Parallel()
			newScene(t, setting{accounts: resource}).mainJob(kind)
		})
	}
}

// mainJob runs the test; kind is the account's kind in replies.
func (s *scene) mainJob(kind string) {
	s.t.Helper()
	want := map[string]string{}
	for n := range 2 {
		runtime := fmt.Sprintf("rt-main-%d", n)
		reply, err := s.provision(runtime, "tenant")
		s.must(err)
		if reply.Status != events.StatusAssigned || reply.Binding.Name != spare.Name || reply.Binding.Kind != kind || *reply.Clusters != n+1 {
			s.t.Fatalf("provision of %s: %+v", runtime, reply)
		}
		want[runtime] = reply.Binding.Name
	}
	facts, err := s.Facts(s.ctx)
	s.must(err)
	if b := facts.Bindings[spare.Name]; b.Tenant != "tenant" || b.Dirty {
		s.t.Errorf("the label of the account: %+v", b)
	}
	if r := facts.Record(facts.Bindings[spare.Name]); r.State != account.InUse || r.Count != len(want) || !r.Confirmed {
		s.t.Errorf("the record of the account: %+v", r)
	}
	for runtime := range want {
		reply, err := s.deprovision(runtime, "tenant")
		s.must(err)
		if reply.Status != events.StatusReleased {
			s.t.Errorf("deprovision of %s: %+v", runtime, reply)
		}
	}
	// The cleanup job of the load sees the dirty account and releases it.
	s.eventually(func() error {
		facts, err = s.Facts(s.ctx)
		if b := facts.Bindings[spare.Name]; err == nil && (b.Tenant != "" || b.Dirty || b.Generation == 0) {
			err = fmt.Errorf("the account is %+v", b)
		}
		return err
	})
	checkPooled(s.t, facts, want)
	s.holds()
}

// checkPooled checks that none of the runtimes is assigned in Redis any more.
func checkPooled(t *testing.T, facts checker.Facts, runtimes map[string]string) {
	t.Helper()
	for runtime := range runtimes {
		for _, r := range facts.Runtimes[runtime] {
			if r.State == account.RuntimeAssigned {
				t.Errorf("runtime %s is still assigned: %+v", runtime, r)
			}
		}
	}
}
