package containers

import (
	"context"
	"net"
	"strconv"

	"github.com/testcontainers/testcontainers-go"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeName is the Kubernetes API's in its network.
const kubeName = "kubeapi"

// KubeAPI says which program serves the Kubernetes API, and with it the Gardener
// kinds. The zero value is integration/kubeapi, where they are CRDs.
type KubeAPI struct {
	Image string // Defaults to hap-worker/kubeapi.
	// Args are further ones. The program takes the flags of integration/kubeapi.
	Args []string
}

// Kube is a Kubernetes API.
type Kube struct {
	container  *container
	kubeconfig []byte // as containers see it
	port       int
}

func startKube(ctx context.Context, image string, args []string, on *testcontainers.DockerNetwork) (*Kube, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	k := &Kube{port: ports[0]}
	const kubeconfig = "/kube/kubeconfig"
	k.container, err = start(ctx, spec{
		image: image, ports: map[int]int{6443: k.port}, networks: map[string][]string{on.Name: {kubeName}},
		command: append([]string{
			"--data", "/data", "--bind", "0.0.0.0", "--port", "6443", "--server", kubeName + ":6443", "--kubeconfig", kubeconfig,
		}, args...),
	})
	if err != nil {
		return k, err
	}
	// The program writes it once it is ready.
	return k, k.container.await(ctx, func(ctx context.Context) (err error) {
		k.kubeconfig, err = k.container.read(ctx, kubeconfig)
		return err
	})
}

// config is for this process, without a rate limit.
func (k *Kube) config() (*rest.Config, error) {
	c, err := clientcmd.RESTConfigFromKubeConfig(k.kubeconfig)
	if err != nil {
		return nil, err
	}
	c.Host, c.QPS = "https://"+net.JoinHostPort(loopback, strconv.Itoa(k.port)), -1
	return c, nil
}

func (k *Kube) remove(ctx context.Context) error { return k.container.remove(ctx) }
