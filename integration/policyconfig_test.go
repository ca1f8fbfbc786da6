package integration_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/gardener/gardenertest"
)

// TestRealPolicyConfig watches a ConfigMap of kube-apiserver.
func TestRealPolicyConfig(t *testing.T) {
	t.Parallel()
	s := sharedCRDStack(t)
	config, err := s.Kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	gardenertest.PolicyConfig(t, gardenertest.Server{Config: config, Namespace: s.Target.Namespace})
}

// TestRealPolicyStore changes a ConfigMap of kube-apiserver.
func TestRealPolicyStore(t *testing.T) {
	t.Parallel()
	s := sharedCRDStack(t)
	config, err := s.Kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	gardenertest.PolicyStore(t, gardenertest.Server{Config: config, Namespace: s.Target.Namespace})
}
