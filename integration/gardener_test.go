package integration_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/gardener/gardenertest"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// TestGardener runs what package gardener promises against the Kubernetes API
// of the stack.
func TestGardener(t *testing.T) {
	t.Parallel()
	for _, resource := range []gardener.Resource{gardener.CredentialsBindings, gardener.SecretBindings, gardener.Secrets} {
		t.Run(string(resource), func(t *testing.T) {
			t.Parallel()
			conforms(t, sharedStack, resource)
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
