package connect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/gardener/policyconfig"
	"github.com/hap-worker/hap-worker/worker/config"
)

// PolicyConfig returns the watch of the ConfigMap that has the policy. It makes no request. changed receives
// the policy's text, and whether there is one.
func PolicyConfig(c *config.Config, changed func(content string, found bool), warn func(string)) (*policyconfig.Watch, error) {
	restConfig, namespace, err := policyCluster(c, "")
	if err != nil {
		return nil, err
	}
	return policyconfig.New(restConfig, policyconfig.Options{
		Namespace: namespace, Name: c.Policy.ConfigMap, Key: c.Policy.Key, OnChange: changed, Warn: warn,
	})
}

// PolicyStore returns the store that reads and changes the ConfigMap of the policy. It makes no request. in
// is a context of Gardener's kubeconfig, "" for the current one. If the policy has a separate kubeconfig,
// the store uses the current context of that kubeconfig.
func PolicyStore(c *config.Config, in string) (*policyconfig.Store, error) {
	restConfig, namespace, err := policyCluster(c, in)
	if err != nil {
		return nil, err
	}
	return policyconfig.NewStore(restConfig, namespace, c.Policy.ConfigMap, c.Policy.Key)
}

// policyCluster returns the client configuration for the cluster that has the policy, and its namespace.
func policyCluster(c *config.Config, in string) (*rest.Config, string, error) {
	kubeconfig := c.Policy.Kubeconfig
	if kubeconfig == "" {
		kubeconfig = c.Gardener.Kubeconfig
	} else {
		in = ""
	}
	restConfig, namespace, err := cluster(kubeconfig, in, "policy.kubeconfig")
	if c.Policy.Namespace != "" {
		namespace = c.Policy.Namespace
	}
	return restConfig, namespace, err
}

// Catalog reads the manifests of the implementations from a directory or a file. If they are invalid, the
// error is a document.Faults that names the files.
func Catalog(name string) (*policy.Catalog, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	if !info.IsDir() {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the catalog: %w", err)
		}
		catalog, err := policy.LoadFile(name, content)
		return catalog, InFile(err, name)
	}
	catalog, err := policy.LoadTree(os.DirFS(name))
	faults, is := errors.AsType[document.Faults](err)
	if err != nil && !is {
		return nil, fmt.Errorf("read the catalog %s: %w", name, err)
	}
	for i := range faults {
		faults[i].File = filepath.Join(name, faults[i].File)
	}
	return catalog, err
}

// InFile returns err. If it is a document.Faults, faults without a file get the file name.
func InFile(err error, name string) error {
	if faults, is := errors.AsType[document.Faults](err); is {
		for i := range faults {
			if faults[i].File == "" {
				faults[i].File = name
			}
		}
	}
	return err
}
