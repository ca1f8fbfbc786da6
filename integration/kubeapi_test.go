package integration_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hap-worker/hap-worker/integration/stack"
)

var (
	credentialsBindings = schema.GroupVersionResource{Group: "security.gardener.cloud", Version: "v1alpha1", Resource: "credentialsbindings"}
	secretBindings      = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "secretbindings"}
)

// kubeapi is a kubeapi process of a test.
type kubeapi struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.Reader
	said   struct {
		Kubeconfig string `json:"kubeconfig"`
		Server     string `json:"server"`
		Ready      bool   `json:"ready"`
	}
}

// startKubeAPI starts the program and returns when it says that it is ready.
func startKubeAPI(t *testing.T, binary string, args ...string) *kubeapi {
	t.Helper()
	k := &kubeapi{cmd: exec.CommandContext(t.Context(), binary, args...)}
	stdin, err := k.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	k.stdin = stdin
	var stderr strings.Builder
	k.cmd.Stderr = &stderr
	stdout, err := k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	k.stdout = lines
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("no line on stdout: %v, %v: %s", err, k.cmd.Wait(), stderr.String())
	}
	if err := json.Unmarshal([]byte(line), &k.said); err != nil || !k.said.Ready {
		t.Fatalf("line %q: %v", line, err)
	}
	return k
}

// wantEnd waits for the program's end, with exit code 0 and nothing more said.
func (k *kubeapi) wantEnd(t *testing.T) {
	t.Helper()
	rest, err := io.ReadAll(k.stdout)
	if err != nil || len(rest) > 0 {
		t.Errorf("stdout after the first line: %q, %v", rest, err)
	}
	if err := k.cmd.Wait(); err != nil {
		t.Errorf("kubeapi: %v; stderr %v", err, k.cmd.Stderr)
	}
}

func (k *kubeapi) config(t *testing.T) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", k.said.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func (k *kubeapi) client(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(k.config(t))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestRealKubeAPI(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	binary, err := stack.Build(ctx, "kubeapi", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")

	first := startKubeAPI(t, binary, "--data", data)
	target := stack.Target{Namespace: "garden-test", Resource: "credentialsbindings"}
	account := stack.Account{Name: "aws-1", HyperscalerType: "aws"}
	secret := stack.Account{Name: "aws-1", HyperscalerType: "aws", Kind: "SecretBinding"}
	if err := stack.Seed(ctx, first.config(t), target, []stack.Account{account, secret}); err != nil {
		t.Fatal(err)
	}
	for _, resource := range []schema.GroupVersionResource{credentialsBindings, secretBindings} {
		t.Run(resource.Resource, func(t *testing.T) {
			checkLife(t, first.client(t).Resource(resource).Namespace(target.Namespace))
		})
	}
	second := exec.CommandContext(ctx, binary, "--data", data)
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "in use by another kubeapi") {
		t.Errorf("a second one on the same data: %v, %s", err, out)
	}
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	before := first.config(t)
	first.wantEnd(t)

	_, port, _ := strings.Cut(strings.TrimPrefix(first.said.Server, "https://"), ":")
	again := startKubeAPI(t, binary, "--data", data, "--port", port, "--until-eof")
	kept, err := dynamic.NewForConfig(before) // the kubeconfig of the first run
	if err != nil {
		t.Fatal(err)
	}
	binding, err := kept.Resource(credentialsBindings).Namespace(target.Namespace).Get(ctx, "aws-1", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("after the restart: %v", err)
	}
	if tenant := binding.GetLabels()["tenantName"]; tenant != "ga-1" {
		t.Errorf("tenantName after the restart = %q, want ga-1", tenant)
	}
	check := exec.CommandContext(ctx, binary, "healthcheck", "--kubeconfig", again.said.Kubeconfig)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("healthcheck of a ready API: %v, %s", err, out)
	}
	if err := again.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	again.wantEnd(t)
	check = exec.CommandContext(ctx, binary, "healthcheck", "--kubeconfig", again.said.Kubeconfig)
	if err := check.Run(); err == nil {
		t.Error("healthcheck of a stopped API succeeds")
	}
}

func TestRealKubeAPIFaults(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	binary, err := stack.Build(ctx, "kubeapi", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// One that starts although it should not would run for ever.
	short, cancelShort := context.WithTimeout(ctx, 2*time.Minute)
	defer cancelShort()
	for says, args := range map[string][]string{
		`required flag(s) "data" not set`:           {},
		"unknown flag: --what":                      {"--data", t.TempDir(), "--what"},
		"kube-apiserver: unknown flag: --nonsense":  {"--data", t.TempDir(), "--", "--nonsense"},
		"address already in use":                    {"--data", t.TempDir(), "--port", port},
		"kube-apiserver did not start: not ready a": {"--data", t.TempDir(), "--startup", "300ms"},
	} {
		out, err := exec.CommandContext(short, binary, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), says) {
			t.Errorf("kubeapi %v: %v, said %s\nwant %q", args, err, out, says)
		}
	}
}

// checkLife reads, claims, makes, lists and deletes bindings, and shows that a
// claim with an old resourceVersion is refused.
func checkLife(t *testing.T, bindings dynamic.ResourceInterface) {
	ctx := t.Context()
	read, err := bindings.Get(ctx, "aws-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim := func(tenant, version string) error {
		patch := `{"metadata":{"resourceVersion":"` + version + `","labels":{"tenantName":"` + tenant + `"}}}`
		_, err := bindings.Patch(ctx, "aws-1", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	if err := claim("ga-1", read.GetResourceVersion()); err != nil {
		t.Fatalf("claim with the version read: %v", err)
	}
	if err := claim("ga-2", read.GetResourceVersion()); !apierrors.IsConflict(err) {
		t.Errorf("claim with a stale version: %v, want a conflict", err)
	}
	copied := &unstructured.Unstructured{Object: read.DeepCopy().Object}
	copied.SetName("aws-2")
	copied.SetResourceVersion("")
	copied.SetUID("")
	if _, err := bindings.Create(ctx, copied, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	unclaimed, err := bindings.List(ctx, metav1.ListOptions{LabelSelector: "hyperscalerType=aws,!tenantName"})
	if err != nil {
		t.Fatal(err)
	}
	if len(unclaimed.Items) != 1 || unclaimed.Items[0].GetName() != "aws-2" {
		t.Errorf("unclaimed: %v, want aws-2 alone", unclaimed.Items)
	}
	if err := bindings.Delete(ctx, "aws-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.Get(ctx, "aws-2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get after delete: %v, want not found", err)
	}
}
