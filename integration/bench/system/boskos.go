package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/integration/stack"
)

const (
	// boskosResources is how many accounts Boskos has to lease.
	boskosResources = 200
	// boskosOwners ask it at the same time.
	boskosOwners = 16
	boskosTime   = 5 * time.Second // of a round
	boskosReady  = time.Minute
)

// boskos is the resource manager of the Kubernetes project's tests, as a process on
// the same Kubernetes API. What it does is smaller: a resource has one owner at a time.
type boskos struct {
	cmd *exec.Cmd
	url string
}

// boskosModule runs the go command in the module that pins Boskos.
func boskosModule(ctx context.Context, args ...string) ([]byte, error) {
	root, err := stack.Root()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(root, "integration", "bench", "boskos")
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

func (b *bench) startBoskos(ctx context.Context) (*boskos, error) {
	fmt.Fprintln(os.Stderr, "building Boskos; the first time takes some minutes")
	binary := filepath.Join(b.dir, "boskos")
	if _, err := boskosModule(ctx, "build", "-o", binary, "sigs.k8s.io/boskos/cmd/boskos"); err != nil {
		return nil, fmt.Errorf("build Boskos: %w", err)
	}
	source, err := boskosModule(ctx, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/boskos")
	if err != nil {
		return nil, fmt.Errorf("find Boskos: %w", err)
	}
	if err := b.applyFile(ctx, filepath.Join(strings.TrimSpace(string(source)), "deployments", "base", "crd.yaml")); err != nil {
		return nil, err
	}
	config := filepath.Join(b.dir, "boskos.yaml")
	content := fmt.Sprintf("resources:\n- type: aws\n  state: free\n  min-count: %d\n  max-count: %d\n", boskosResources, boskosResources)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		return nil, err
	}
	var ports [3]string
	for i := range ports {
		port, err := stack.FreePort()
		if err != nil {
			return nil, err
		}
		ports[i] = strconv.Itoa(port)
	}
	k := &boskos{url: "http://" + net.JoinHostPort("127.0.0.1", ports[0])}
	k.cmd = exec.Command(binary, "--config", config, "--kubeconfig", b.stack.Kube.Kubeconfig(), "--log-level", "error",
		"--port", ports[0], "--health-port", ports[1], "--metrics-port", ports[2])
	// It reports every conflict of two owners, which is many; what matters is counted.
	if err := k.cmd.Start(); err != nil {
		return nil, err
	}
	return k, k.await(ctx)
}

// applyFile creates the objects of a file with CustomResourceDefinitions.
func (b *bench) applyFile(ctx context.Context, path string) error {
	client, err := b.unlimited()
	if err != nil {
		return err
	}
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for reader := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		o := &unstructured.Unstructured{}
		if err := reader.Decode(o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if len(o.Object) > 0 {
			if err := create(ctx, client, o); err != nil {
				return err
			}
		}
	}
}

func create(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) error {
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err := client.Resource(crds).Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// await returns when Boskos has made its resources and leases one.
func (k *boskos) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, boskosReady, errors.New("leases nothing"))
	defer cancel()
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for {
		err := k.lease(ctx, "probe")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err, k.stop())
		case <-every.C:
		}
	}
}

// lease acquires an account and releases it. What was acquired is released whatever happens
// meanwhile: Boskos refuses to where it meets another owner's change, and no other server would.
func (k *boskos) lease(ctx context.Context, owner string) error {
	name, err := k.ask(ctx, "acquire", url.Values{"type": {"aws"}, "state": {"free"}, "dest": {"busy"}, "owner": {owner}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), boskosTime)
	defer cancel()
	for {
		_, err := k.ask(ctx, "release", url.Values{"name": {name}, "dest": {"free"}, "owner": {owner}})
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// ask sends one request and returns the name of the resource in the answer.
func (k *boskos) ask(ctx context.Context, what string, q url.Values) (name string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, k.url+"/"+what+"?"+q.Encode(), http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("boskos: %s: %s: %s", what, resp.Status, body)
	}
	return nameIn(body), nil
}

func nameIn(body []byte) string {
	var o struct {
		Name string `json:"name"`
	}
	if err := yaml.Unmarshal(body, &o); err != nil {
		return ""
	}
	return o.Name
}

func (k *boskos) stop() error {
	if err := k.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = k.cmd.Wait() // it ends with an error when it is told to end
	return nil
}

// boskosRound leases accounts for some seconds. An acquire that found another
// owner's change in its way is no lease.
func (b *bench) boskosRound(ctx context.Context, r *report) error {
	if b.boskos == nil {
		var err error
		if b.boskos, err = b.startBoskos(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, boskosTime)
	defer cancel()
	var leases atomic.Int64
	var refused atomic.Value // the last error
	var all sync.WaitGroup
	begin := time.Now()
	for n := range boskosOwners {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := b.boskos.lease(ctx, fmt.Sprintf("owner-%d-%d-%d", b.round, n, i)); err != nil {
					refused.Store(err.Error())
				} else {
					leases.Add(1)
				}
			}
		})
	}
	all.Wait()
	if leases.Load() == 0 {
		return fmt.Errorf("%s: not one in %s: %v", nameBoskos, boskosTime, refused.Load())
	}
	r.add(nameBoskos, sample{Rate: float64(leases.Load()) / time.Since(begin).Seconds()})
	return nil
}
