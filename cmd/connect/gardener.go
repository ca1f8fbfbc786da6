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

// cluster returns the client configuration for the cluster of a kubeconfig, and the namespace of the chosen
// context. An empty kubeconfig means the files in KUBECONFIG, or else ~/.kube/config; if there is none of
// them, the cluster in which the program runs. in is a context, "" for the current one. Errors begin with
// key, the configuration key at fault.
func cluster(kubeconfig, in, key string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := func() clientcmd.ClientConfig { // a loader reads the files only once
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

// Gardener returns the client of the cluster that has the bindings. It makes no request. in is a context of
// the kubeconfig, "" for the current one. warn receives warnings for operators.
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

// GardenerOptions returns the client's options for a configuration and a namespace.
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

// Shown returns URLs, separated by commas, without user, password and query. A text that cannot be parsed becomes
// "(not a URL)", since it may have a password.
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

// secretFile reads a file with a single secret, without white space around it.
func secretFile(path string) (string, error) {
	content, err := os.ReadFile(path)
	return strings.TrimSpace(string(content)), err
}
