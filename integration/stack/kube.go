package stack

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Kube is a Kubernetes API: integration/kubeapi, or the etcd and kube-apiserver
// of KUBEBUILDER_ASSETS where that is set; with RealGardener it is
// integration/kubeapi with integration/gardenerapi behind it.
type Kube struct {
	dir        string
	port       int
	args       []string // further flags of kube-apiserver
	binary     string   // kubeapi; "" with assets
	assets     string
	kubeconfig string
	etcd       string    // kubeapi's, as it said at its last start
	gardener   *gardener // nil: the kinds are CRDs
	talk       io.Writer
	processes  []*process // in the order of their start
}

func startKube(ctx context.Context, dir string, o Options) (*Kube, error) {
	k := &Kube{
		dir:        dir,
		port:       o.KubePort,
		args:       o.KubeArgs,
		assets:     os.Getenv("KUBEBUILDER_ASSETS"),
		kubeconfig: filepath.Join(dir, "kubeconfig"),
		talk:       o.Talk,
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if o.Gardener == RealGardener {
		// kubeapi shares its etcd and has certificates for servers behind it; the assets
		// have neither.
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

// Kubeconfig is the path of a kubeconfig that may do everything; it stays valid
// over restarts.
func (k *Kube) Kubeconfig() string { return k.kubeconfig }

// Config is the kubeconfig for client-go, without a client-side rate limit.
func (k *Kube) Config() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", k.kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	cfg.WarningHandlerWithContext = rest.NoWarnings{} // Gardener has one for each SecretBinding
	return cfg, nil
}

// Start starts a stopped API with the objects that it had, on the same port,
// and returns when it is ready.
func (k *Kube) Start(ctx context.Context) error {
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

func portOf(address string) (int, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(parsed.Port())
}

// Stop stops the API; its objects stay.
func (k *Kube) Stop() error {
	var errs []error
	for _, p := range slices.Backward(k.processes) {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// Kill ends the API at once, as a crash does; its objects stay.
func (k *Kube) Kill() {
	for _, p := range slices.Backward(k.processes) {
		p.kill()
	}
}
