package connect

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker/config"
)

// cluster returns how to reach the cluster of a kubeconfig, and the namespace of the
// chosen context. An empty kubeconfig stands for the file that KUBECONFIG names, else
// for the cluster that the program runs in. in names a context; empty is the current
// one. Errors begin with key, the configuration key at fault.
func cluster(kubeconfig, in, key string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := func() clientcmd.ClientConfig { // it reads the files once
		return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: in})
	}
	restConfig, err := loader().ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", key, err)
	}
	namespace, _, err := loader().Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", key, err)
	}
	load := func() (*rest.Config, error) { return loader().ClientConfig() }
	if restConfig, err = following(restConfig, load, rules.GetLoadingPrecedence()); err != nil {
		return nil, "", fmt.Errorf("%s: %w", key, err)
	}
	return rest.AddUserAgent(restConfig, "hap-worker"), namespace, nil
}

// Gardener makes the client of the cluster that has the bindings, without asking
// it anything. in is a context of the kubeconfig, "" for the current one. warn is given
// what an operator should look at.
func Gardener(c config.Gardener, in string, warn func(string)) (*gardener.Client, gardener.Options, error) {
	restConfig, namespace, err := cluster(c.Kubeconfig, in, "gardener.kubeconfig")
	if err != nil {
		return nil, gardener.Options{}, err
	}
	if c.Namespace != "" {
		namespace = c.Namespace
	}
	options := GardenerOptions(c, namespace, warn)
	client, err := gardener.New(restConfig, options)
	return client, options, err
}

// GardenerOptions are those of the configuration, in a namespace.
func GardenerOptions(c config.Gardener, namespace string, warn func(string)) gardener.Options {
	return gardener.Options{
		Namespace: namespace, Resource: gardener.Resource(c.Resource), Warn: warn,
		ShootRuntimeID: c.Shoots.RuntimeID, ShootTenant: c.Shoots.Tenant, Budget: c.Budget,
		Labels: map[string]string{
			"hyperscalerType": c.Labels.HyperscalerType, "tenantName": c.Labels.TenantName,
			"dirty": c.Labels.Dirty, "internal": c.Labels.Internal,
			"shared": c.Labels.Shared, "euAccess": c.Labels.EUAccess,
		},
	}
}

// Shown are URLs without what may be secret in them.
func Shown(urls []string) string {
	out := make([]string, 0, len(urls))
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			out = append(out, "(not a URL)")
			continue
		}
		u.User, u.RawQuery = nil, ""
		out = append(out, u.String())
	}
	return strings.Join(out, ",")
}

// secretFile reads a file with a single secret.
func secretFile(path string) (string, error) {
	content, err := os.ReadFile(path)
	return strings.TrimSpace(string(content)), err
}
