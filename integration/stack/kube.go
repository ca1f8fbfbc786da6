package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hap-worker/hap-worker/integration/lightapi"
)

// Kube is a Kubernetes API. LightGardener runs integration/lightapi in this process.
// CRDGardener runs integration/kubeapi, or the etcd and kube-apiserver of KUBEBUILDER_ASSETS
// if that is set. RealGardener runs integration/kubeapi and integration/gardenerapi.
type Kube struct {
	light      *lightapi.Server // nil if the API is a separate process
	dir        string
	port       int
	args       []string // further flags of kube-apiserver
	binary     string   // path of kubeapi; "" with KUBEBUILDER_ASSETS
	assets     string
	kubeconfig string
	namespace  string    // of the kubeconfig's context
	etcd       string    // address that kubeapi printed at its last start
	gardener   *gardener // nil if the kinds are CRDs
	talk       io.Writer
	processes  []*process // in start order
}

func startKube(ctx context.Context, dir, namespace string, o Options) (*Kube, error) {
	k := &Kube{
		dir:        dir,
		port:       o.KubePort,
		args:       o.KubeArgs,
		assets:     os.Getenv("KUBEBUILDER_ASSETS"),
		kubeconfig: filepath.Join(dir, "kubeconfig"),
		namespace:  namespace,
		talk:       o.Talk,
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if o.Gardener == LightGardener {
		if err := k.startLight(); err != nil {
			return nil, err
		}
		return k, nameNamespace(k.kubeconfig, k.namespace)
	}
	if o.Gardener == RealGardener {
		// Gardener's API server needs the etcd and the certificates of kubeapi. The assets
		// do not provide them.
		k.assets = ""
		binary, err := Build(ctx, "gardenerapi", o.Talk)
		if err != nil {
			return nil, err
		}
		k.gardener = &gardener{binary: binary, args: o.GardenerArgs}
	}
	if k.assets == "" {
		var err error
		if k.binary, err = Build(ctx, "kubeapi", o.Talk); err != nil {
			return nil, err
		}
	}
	return k, k.Start(ctx)
}

// startLight starts the API in this process. If another program takes the port before the
// API listens on it, startLight tries another port.
func (k *Kube) startLight() error {
	for range 10 {
		port := k.port
		if port == 0 {
			// Choose the port here, so that the API has the same port after a restart.
			var err error
			if port, err = FreePort(); err != nil {
				return err
			}
		}
		light, err := lightapi.New(lightapi.Options{Kubeconfig: k.kubeconfig, Port: port})
		if err != nil {
			return err
		}
		if err = light.Start(); err == nil {
			k.light, k.port = light, port
			return nil
		}
		if k.port != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return errors.New("the light API found no free port in 10 attempts")
}

// Kubeconfig returns the path of a kubeconfig with all rights. It stays valid after restarts.
func (k *Kube) Kubeconfig() string { return k.kubeconfig }

// Kind returns LightGardener, CRDGardener or RealGardener.
func (k *Kube) Kind() string {
	switch {
	case k.light != nil:
		return LightGardener
	case k.gardener != nil:
		return RealGardener
	default:
		return CRDGardener
	}
}

// Config returns the client-go configuration, without a client-side rate limit.
func (k *Kube) Config() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", k.kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	cfg.WarningHandlerWithContext = rest.NoWarnings{} // Gardener warns about each SecretBinding
	return cfg, nil
}

// Start starts a stopped API with its old objects on the same port, and returns when the API
// is ready.
func (k *Kube) Start(ctx context.Context) error {
	if err := k.start(ctx); err != nil {
		return err
	}
	if err := nameNamespace(k.kubeconfig, k.namespace); err != nil { // each start rewrites the file
		k.Kill()
		return err
	}
	return nil
}

func (k *Kube) start(ctx context.Context) error {
	if k.light != nil {
		return k.light.Start()
	}
	k.processes = nil
	if k.assets != "" {
		return k.startAssets(ctx)
	}
	var said struct {
		Server string `json:"server"`
		Etcd   string `json:"etcd"`
	}
	p, err := startAnnouncing(ctx, command{
		name: "kubeapi",
		path: k.binary,
		args: append([]string{"--data", k.dir, "--port", strconv.Itoa(k.port), "--kubeconfig", k.kubeconfig, "--until-eof", "--"}, k.args...),
		talk: k.talk,
	}, &said)
	if err != nil {
		return err
	}
	k.processes = []*process{p}
	k.etcd = said.Etcd
	k.port, err = portOf(said.Server)
	if err == nil && k.gardener != nil {
		err = k.startGardener(ctx)
	}
	if err != nil {
		k.Kill()
	}
	return err
}

// nameNamespace sets the namespace in the current context of a kubeconfig, so that a client
// that only has this file uses the namespace of the accounts.
func nameNamespace(path, namespace string) error {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return fmt.Errorf("%s has no current context", path)
	}
	current.Namespace = namespace
	return clientcmd.WriteToFile(*config, path)
}

func portOf(address string) (int, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(parsed.Port())
}

// Stop stops the API and keeps its objects.
func (k *Kube) Stop() error {
	if k.light != nil {
		return k.light.Stop()
	}
	var errs []error
	for _, p := range slices.Backward(k.processes) {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// Kill ends the API at once, like a crash. Its objects stay.
func (k *Kube) Kill() {
	if k.light != nil {
		k.light.Kill()
		return
	}
	for _, p := range slices.Backward(k.processes) {
		p.kill()
	}
}
