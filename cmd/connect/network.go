package connect

import (
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker/config"
)

// IPAMConfig makes the watch of the network configuration, without asking the cluster
// anything. changed is told the object as JSON, and whether there is one.
func IPAMConfig(c *config.Config, changed func(content []byte, found bool), warn func(string)) (*gardener.IPAMConfig, error) {
	kubeconfig := c.Network.Kubeconfig
	if kubeconfig == "" {
		kubeconfig = c.Gardener.Kubeconfig
	}
	restConfig, _, err := cluster(kubeconfig, "network.kubeconfig")
	if err != nil {
		return nil, err
	}
	return gardener.NewIPAMConfig(restConfig, gardener.IPAMConfigOptions{Name: c.Network.Config, OnChange: changed, Warn: warn})
}
