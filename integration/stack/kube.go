package stack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Kube is a Kubernetes API: integration/kubeapi, or the etcd and kube-apiserver
// of KUBEBUILDER_ASSETS where that is set.
type Kube struct {
	dir        string
	port       int
	args       []string // further flags of kube-apiserver
	binary     string   // kubeapi; "" with assets
	assets     string
	kubeconfig string
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
	return cfg, nil
}

// Start starts a stopped API with the objects that it had, on the same port,
// and returns when it is ready.
func (k *Kube) Start(ctx context.Context) error {
	k.processes = nil
	if k.assets != "" {
		return k.startAssets(ctx)
	}
	ready, stdout := io.Pipe()
	p, err := startProcess(command{
		name:   "kubeapi",
		path:   k.binary,
		args:   append([]string{"--data", k.dir, "--port", strconv.Itoa(k.port), "--kubeconfig", k.kubeconfig, "--until-eof", "--"}, k.args...),
		stdout: stdout,
		talk:   k.talk,
	})
	if err != nil {
		return err
	}
	k.processes = []*process{p}
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(ready).ReadString('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, ready)
	}()
	go func() { // after the end, for the reader above
		<-p.done
		_ = stdout.Close()
	}()
	select {
	case line := <-lines:
		if err := k.announced(line); err != nil {
			p.kill()
			return errors.Join(p.failure(), err)
		}
		return nil
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("kubeapi is not ready: %w", context.Cause(ctx))
	}
}

// announced reads the line that kubeapi prints when it is ready.
func (k *Kube) announced(line string) error {
	var said struct {
		Server string `json:"server"`
		Ready  bool   `json:"ready"`
	}
	if err := json.Unmarshal([]byte(line), &said); err != nil || !said.Ready {
		return fmt.Errorf("kubeapi did not say that it is ready, but %q", line)
	}
	server, err := url.Parse(said.Server)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(server.Host)
	if err != nil {
		return err
	}
	k.port, err = strconv.Atoi(port)
	return err
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
