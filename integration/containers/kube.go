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

// The Kubernetes API and Gardener's API server behind it, in their network.
const (
	kubeName, kubePort         = "kubeapi", 6443
	gardenerName, gardenerPort = "gardenerapi", 8443
	etcdPort                   = 2379
)

// Kube is a Kubernetes API.
type Kube struct {
	container  *container
	gardener   *container // nil where the kinds are CRDs
	kubeconfig []byte     // as containers see it
	port       int
}

// startKube starts one; gardener is the image of Gardener's own API server, "" for
// kinds that are CRDs.
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
	// The program writes it once it is ready.
	err = k.container.await(ctx, func(ctx context.Context) (err error) {
		k.kubeconfig, err = k.container.read(ctx, kubeconfig)
		return err
	})
	if err != nil || gardener == "" {
		return k, err
	}
	// The maker of a landscape waits until it serves.
	k.gardener, err = start(ctx, spec{
		image: gardener, networks: map[string][]string{on.Name: {gardenerName}}, files: map[string][]byte{"/etc/kubeconfig": k.kubeconfig},
		command: []string{
			"--data", "/data", "--bind", "0.0.0.0", "--port", strconv.Itoa(gardenerPort), "--kubeconfig", "/etc/kubeconfig",
			"--etcd", "http://" + net.JoinHostPort(kubeName, strconv.Itoa(etcdPort)),
			// It looks a binding's Secret up at every write, with a client of 5 requests a second
			// that no flag changes: less than one landscape's load.
			"--", "--disable-admission-plugins=ResourceReferenceManager",
		},
	})
	return k, err
}

// aggregated is where kube-apiserver finds Gardener's API server, nil where there is none.
func (k *Kube) aggregated() *stack.Aggregated {
	if k.gardener == nil {
		return nil
	}
	return &stack.Aggregated{Host: gardenerName, Port: gardenerPort}
}

// config is for this process, without a rate limit.
func (k *Kube) config() (*rest.Config, error) {
	c, err := clientcmd.RESTConfigFromKubeConfig(k.kubeconfig)
	if err != nil {
		return nil, err
	}
	c.Host, c.QPS = "https://"+net.JoinHostPort(loopback, strconv.Itoa(k.port)), -1
	c.WarningHandler = rest.NoWarnings{} // one for each Shoot on a SecretBinding
	return c, nil
}

func (k *Kube) remove(ctx context.Context) error {
	return errors.Join(k.gardener.remove(ctx), k.container.remove(ctx))
}
