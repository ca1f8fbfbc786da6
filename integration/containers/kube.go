package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/testcontainers/testcontainers-go"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// The names and ports of the Kubernetes API and of gardener-apiserver behind it, in their network.
const (
	kubeName, kubePort         = "kubeapi", 6443
	gardenerName, gardenerPort = "gardenerapi", 8443
	etcdPort                   = 2379
)

// Kube is a Kubernetes API.
type Kube struct {
	container  *container
	gardener   *container // nil if the kinds are CRDs
	kubeconfig []byte     // for containers
	port       int
}

// startKube starts a Kubernetes API. gardener is the image of gardener-apiserver, "" if the Gardener kinds are CRDs.
func startKube(ctx context.Context, image, gardener string, on *testcontainers.DockerNetwork) (*Kube, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	k := &Kube{port: ports[0]}
	const kubeconfig = "/kube/kubeconfig"
	command := []string{"--bind", "0.0.0.0", "--port", strconv.Itoa(kubePort), "--kubeconfig", kubeconfig}
	if image == lightImage {
		command = append(command, "--name", kubeName)
	} else {
		command = append(command, "--data", "/data", "--server", fmt.Sprintf("%s:%d", kubeName, kubePort), "--etcd-listen", fmt.Sprintf("0.0.0.0:%d", etcdPort))
	}
	k.container, err = start(ctx, spec{
		image: image, ports: map[int]int{kubePort: k.port}, networks: map[string][]string{on.Name: {kubeName}}, command: command,
	})
	if err != nil {
		return k, err
	}
	// The API's program writes the kubeconfig when the API is ready.
	err = k.container.await(ctx, func(ctx context.Context) (err error) {
		k.kubeconfig, err = k.container.read(ctx, kubeconfig)
		return err
	})
	if err != nil || gardener == "" {
		return k, err
	}
	// NewLandscape waits until gardener-apiserver serves.
	k.gardener, err = start(ctx, spec{
		image: gardener, networks: map[string][]string{on.Name: {gardenerName}}, files: map[string][]byte{"/etc/kubeconfig": k.kubeconfig},
		command: []string{
			"--data", "/data", "--bind", "0.0.0.0", "--port", strconv.Itoa(gardenerPort), "--kubeconfig", "/etc/kubeconfig",
			"--etcd", "http://" + net.JoinHostPort(kubeName, strconv.Itoa(etcdPort)),
			// This plugin looks up a binding's Secret at every write, with a client that is limited to 5
			// requests a second: less than the load of one landscape.
			"--", "--disable-admission-plugins=ResourceReferenceManager",
		},
	})
	return k, err
}

// aggregated returns the address of gardener-apiserver for kube-apiserver, nil if there is none.
func (k *Kube) aggregated() *stack.Aggregated {
	if k.gardener == nil {
		return nil
	}
	return &stack.Aggregated{Host: gardenerName, Port: gardenerPort}
}

// config returns the client configuration for this process, without a rate limit.
func (k *Kube) config() (*rest.Config, error) {
	c, err := clientcmd.RESTConfigFromKubeConfig(k.kubeconfig)
	if err != nil {
		return nil, err
	}
	c.Host, c.QPS = "https://"+net.JoinHostPort(loopback, strconv.Itoa(k.port)), -1
	c.WarningHandler = rest.NoWarnings{} // Gardener warns about each Shoot on a SecretBinding
	return c, nil
}

func (k *Kube) remove(ctx context.Context) error {
	return errors.Join(k.gardener.remove(ctx), k.container.remove(ctx))
}
