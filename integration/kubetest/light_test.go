package kubetest_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hap-worker/hap-worker/engine/leaktest"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/gardener/gardenertest"
	"github.com/hap-worker/hap-worker/integration/kubetest"
	"github.com/hap-worker/hap-worker/integration/lightapi"
	"github.com/hap-worker/hap-worker/integration/stack"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long the API may take to be seeded.
const patience = 30 * time.Second

const namespace = "garden-test"

// light starts an API of integration/lightapi with the kinds of deploy/crds and a namespace, and returns a client's
// configuration.
func light(t *testing.T) *rest.Config {
	t.Helper()
	o := lightapi.Options{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	s, err := lightapi.New(o)
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.WarningHandlerWithContext = -1, rest.NoWarnings{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	target := stack.Target{Namespace: namespace, Resource: "credentialsbindings"}
	if err := stack.Seed(ctx, config, target, nil); err != nil {
		t.Fatal(err)
	}
	return config
}

// TestConformance runs package gardener's conformance suite on the light API.
func TestConformance(t *testing.T) {
	t.Parallel()
	config := light(t)
	for _, resource := range []gardener.Resource{gardener.CredentialsBindings, gardener.SecretBindings, gardener.Secrets} {
		t.Run(string(resource), func(t *testing.T) {
			t.Parallel()
			gardenertest.Run(t, func(*testing.T) gardenertest.Server {
				return gardenertest.Server{Config: config, Namespace: namespace, Resource: resource, ShootSpec: stack.ShootSpec}
			})
		})
	}
	t.Run("PolicyConfig", func(t *testing.T) {
		t.Parallel()
		gardenertest.PolicyConfig(t, gardenertest.Server{Config: config, Namespace: namespace})
	})
	t.Run("PolicyStore", func(t *testing.T) {
		t.Parallel()
		gardenertest.PolicyStore(t, gardenertest.Server{Config: config, Namespace: namespace})
	})
}

// TestLight runs the suite on the light API, as TestRealKubernetes of integration does on kube-apiserver.
func TestLight(t *testing.T) {
	t.Parallel()
	config := light(t)
	kubetest.Run(t, config)
}
