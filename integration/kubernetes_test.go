package integration_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/integration/kubetest"
)

// TestRealKubernetes holds on kube-apiserver what TestLight of integration/kubetest holds
// on the light API: the two answer alike.
func TestRealKubernetes(t *testing.T) {
	t.Parallel()
	config, err := sharedCRDStack(t).Kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Run(t, config)
}
