package connect

import (
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/gardener/clusterconfig"
	"github.com/hap-worker/hap-worker/worker/config"
)

// IPAMConfig returns the watch of the network configuration. It makes no request. changed receives the object
// as JSON, and whether there is one.
func IPAMConfig(c *config.Config, changed func(content []byte, found bool), warn func(string)) (*clusterconfig.IPAMConfig, error) {
	restConfig, err := networkCluster(c)
	if err != nil {
		return nil, err
	}
	return clusterconfig.NewIPAMConfig(restConfig, clusterconfig.IPAMConfigOptions{Name: c.Network.Config, OnChange: changed, Warn: warn})
}

// ClusterConfigs returns the writer of ClusterConfigs, which are written in addition to the ledger. It makes
// no request. changed receives the runtime of an object that another writer edited or deleted.
func ClusterConfigs(c *config.Config, changed func(runtime string), warn func(string)) (*clusterconfig.Configs, error) {
	restConfig, err := networkCluster(c)
	if err != nil {
		return nil, err
	}
	return clusterconfig.New(restConfig, clusterconfig.Options{Changed: changed, Warn: warn})
}

// ClusterWatch returns the watch of Clusters. It makes no request. changed receives a Cluster as it was, nil
// for a new one, and as it is.
func ClusterWatch(c *config.Config, changed func(before, now *network.Cluster), warn func(string)) (*clusterconfig.ClusterWatch, error) {
	restConfig, err := networkCluster(c)
	if err != nil {
		return nil, err
	}
	return clusterconfig.NewClusterWatch(restConfig, clusterconfig.ClusterWatchOptions{Changed: changed, Warn: warn})
}

func networkCluster(c *config.Config) (*rest.Config, error) {
	kubeconfig := c.Network.Kubeconfig
	if kubeconfig == "" {
		kubeconfig = c.Gardener.Kubeconfig
	}
	restConfig, _, err := cluster(kubeconfig, "", "network.kubeconfig")
	return restConfig, err
}
