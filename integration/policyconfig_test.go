package integration_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/gardener/gardenertest"
)

// TestPolicyConfig watches a ConfigMap of the stack's Kubernetes API.
func TestPolicyConfig(t *testing.T) {
	t.Parallel()
	s := sharedStack(t)
	config, err := s.Kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	gardenertest.PolicyConfig(t, gardenertest.Server{Config: config, Namespace: s.Target.Namespace})
}
