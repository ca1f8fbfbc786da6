package integration_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/gardener/gardenertest"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// TestRealCRDs runs what package gardener promises against kube-apiserver with
// Gardener's kinds as CRDs. The same suite runs on Gardener's own API server in
// TestRealGardener, and on the API that most tests use in integration/kubetest.
func TestRealCRDs(t *testing.T) {
	t.Parallel()
	for _, resource := range []gardener.Resource{gardener.CredentialsBindings, gardener.SecretBindings, gardener.Secrets} {
		t.Run(string(resource), func(t *testing.T) {
			t.Parallel()
			conforms(t, sharedCRDStack, resource)
		})
	}
}

// conforms runs the suite on a shared stack.
func conforms(t *testing.T, shared func(*testing.T) *stack.Stack, resource gardener.Resource) {
	gardenertest.Run(t, func(t *testing.T) gardenertest.Server {
		t.Helper()
		s := shared(t)
		config, err := s.Kube.Config()
		if err != nil {
			t.Fatal(err)
		}
		return gardenertest.Server{Config: config, Namespace: s.Target.Namespace, Resource: resource, ShootSpec: stack.ShootSpec}
	})
}
