package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// devstack builds the program devstack.
func devstack(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "devstack")
	// Without -trimpath: the stack finds the sources by its own path.
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./devstack").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// TestStackStarts starts devstack, and shows that its parts answer and that nothing is
// left of it.
func TestStackStarts(t *testing.T) {
	t.Parallel()
	checkDevstack(t, stack.LightGardener)
}

// TestRealStackStarts is TestStackStarts with kube-apiserver.
func TestRealStackStarts(t *testing.T) {
	t.Parallel()
	checkDevstack(t, stack.CRDGardener, "--gardener", "crd")
}

func checkDevstack(t *testing.T, kind string, args ...string) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	temp := t.TempDir()
	cmd := exec.CommandContext(ctx, devstack(t), append([]string{"--json", "--no-worker", "--until-eof"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		t.Fatalf("no line on stdout: %v, %v: %s", err, cmd.Wait(), stderr.String())
	}
	var said stack.Summary
	strict := json.NewDecoder(bytes.NewReader(line))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&said); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if !said.Ready || said.Gardener != kind || said.Resource != "credentialsbindings" || said.Workers == nil || len(said.Workers) != 0 {
		t.Errorf("summary: %s", line)
	}
	if processes := processesOf(t, temp); len(processes) < 1 && kind != stack.LightGardener { // Redis names no directory
		t.Errorf("no process works below %s: the check for leftovers would see nothing", temp)
	}
	checkNATS(ctx, t, said.NATS)
	checkRedis(ctx, t, said.Redis)
	checkAccounts(ctx, t, said, len(stack.DemoAccounts()))

	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("stdout after the first line: %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("devstack: %v\n%s", err, stderr.String())
	}
	if processes := processesOf(t, temp); len(processes) > 0 {
		t.Errorf("left over: %v", processes)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

func checkNATS(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Storage: jetstream.FileStorage}); err != nil {
		t.Errorf("JetStream: %v", err)
	}
}

func checkRedis(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	client := redisClient(t, url)
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Errorf("Redis: %v", err)
	}
}

func redisClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func checkAccounts(ctx context.Context, t *testing.T, said stack.Summary, want int) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", said.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.Resource(credentialsBindings).Namespace(said.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "hyperscalerType"})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Items) != want {
		t.Errorf("%d bindings, want %d", len(found.Items), want)
	}
	if _, err := os.Stat(said.Config); err != nil {
		t.Errorf("configuration: %v", err)
	}
}

// processesOf are the command lines of processes that have dir among their arguments.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if strings.Contains(string(line), dir+"/") {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func TestDevstackUsage(t *testing.T) {
	t.Parallel()
	binary := devstack(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--gardener", "other"}, "light, crd or real"},
		{[]string{"--no-worker", "--workers", "2"}, "one of them"},
		{[]string{"--workers", "-1"}, "0 or more"},
		{[]string{"--config", "testdata/none.yaml"}, "none.yaml"},
		{[]string{"--what"}, "unknown flag"},
		{[]string{"more"}, "unknown command"},
	} {
		cmd := exec.CommandContext(t.Context(), binary, c.args...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), c.says) {
			t.Errorf("devstack %v: exit code %d, want 2; said %s", c.args, code, out)
		}
	}
}

// TestPartsRestart shows what each part keeps when it is stopped, killed or lost.
func TestPartsRestart(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{stack.RealRedis, stack.MiniRedis} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind == stack.RealRedis {
				requireRedis(t)
			}
			checkRestarts(t, stack.Options{Redis: kind, Gardener: stack.LightGardener})
		})
	}
}

// TestRealPartsRestart is TestPartsRestart with kube-apiserver.
func TestRealPartsRestart(t *testing.T) {
	t.Parallel()
	requireRedis(t)
	checkRestarts(t, stack.Options{Redis: stack.RealRedis, Gardener: stack.CRDGardener})
}

func checkRestarts(t *testing.T, o stack.Options) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	kind := o.Redis
	o.Accounts, o.Talk = []stack.Account{{Name: "aws-1", HyperscalerType: "aws"}}, t.Output()
	s, err := stack.Start(ctx, o)
	must(err)
	before := s.Summary()
	if before.RedisKind != kind {
		t.Errorf("kind of Redis %q, want %q", before.RedisKind, kind)
	}
	checkNATS(ctx, t, before.NATS)
	checkRedis(ctx, t, before.Redis)

	must(s.NATS.Stop())
	must(s.NATS.Start(ctx))
	nc, err := nats.Connect(before.NATS)
	must(err)
	js, err := jetstream.New(nc)
	must(err)
	if _, err := js.Stream(ctx, "S"); err != nil {
		t.Errorf("the stream after a restart: %v", err)
	}
	nc.Close()

	client := redisClient(t, before.Redis)
	s.Redis.Kill()
	must(s.Redis.Start(ctx))
	if v, err := client.Get(ctx, "k").Result(); err != nil || v != "v" {
		t.Errorf("key after a crash of Redis: %q, %v", v, err)
	}
	must(s.Redis.Lose(ctx))
	if v, err := client.Get(ctx, "k").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("key after a loss of Redis: %q, %v, want none", v, err)
	}

	s.Kube.Kill()
	must(s.Kube.Start(ctx))
	checkAccounts(ctx, t, before, 1)
	must(s.Stop())
	must(s.Stop())
	if after := s.Summary(); after.NATS != before.NATS || after.Redis != before.Redis || after.Kubeconfig != before.Kubeconfig {
		t.Errorf("addresses changed: %+v, before %+v", after, before)
	}
}
