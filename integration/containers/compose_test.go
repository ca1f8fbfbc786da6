package containers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/containers"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// TestCompose uses docker-compose.yaml as a new user does: it brings everything up, opens the operations page,
// provisions a cluster with its hapctl, and finds the data again after a down and an up.
func TestCompose(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	programs := composePrograms(t)
	ctx, cancel := context.WithTimeout(t.Context(), buildLimit)
	defer cancel()
	if err := containers.BuildImages(ctx, os.Stderr); err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		t.Run(strings.Join(program, " "), func(t *testing.T) { composeStory(t, newCompose(t, program)) })
	}
}

func composeStory(t *testing.T, c *compose) {
	c.run("up", "-d")
	c.awaitReady()
	if code := c.page("", ""); code != http.StatusUnauthorized {
		t.Errorf("the page without a password answers %d", code)
	}
	if code := c.page("demo", "demo"); code != http.StatusOK {
		t.Errorf("the page with its password answers %d", code)
	}
	var reply events.Reply
	c.hapctl(&reply, "provision", "--runtime", "rt-1", "--global-account", "ga-1", "--plan", "aws")
	if reply.Status != events.StatusAssigned {
		t.Fatalf("the first cluster: %+v", reply)
	}
	binding := reply.Binding.Name

	c.run("down", "-t", "10")
	c.run("up", "-d")
	c.awaitReady()
	c.hapctl(&reply, "provision", "--runtime", "rt-2", "--global-account", "ga-1", "--plan", "aws")
	if reply.Status != events.StatusAssigned || reply.Binding.Name != binding || *reply.Clusters != 2 {
		t.Errorf("the tenant's second cluster, after a down and an up: %+v, want it beside the first on %s", reply, binding)
	}
}

// composePrograms returns those that this machine has: docker compose, docker-compose, or both.
func composePrograms(t *testing.T) (found [][]string) {
	t.Helper()
	for _, program := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if exec.CommandContext(t.Context(), program[0], append(program[1:], "version")...).Run() == nil {
			found = append(found, program)
		}
	}
	switch {
	case len(found) > 0:
	case os.Getenv("HAP_REQUIRE_ALL") != "":
		t.Fatal("docker compose or docker-compose is required")
	default:
		t.Skip("not run: there is neither docker compose nor docker-compose")
	}
	return found
}

// project is the beginning of the name of every compose project of these tests; the process id follows.
const project = "hap-test-"

// compose is one project of docker-compose.yaml.
type compose struct {
	t       *testing.T
	ctx     context.Context
	program []string
	root    string
	env     []string
	port    int // of the page
}

func newCompose(t *testing.T, program []string) *compose {
	t.Helper()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	ports, err := containers.FreePorts(4)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("compose takes longer than %s", limit))
	t.Cleanup(cancel)
	c := &compose{t: t, ctx: ctx, program: program, root: root, port: ports[0]}
	c.env = append(os.Environ(), fmt.Sprintf("COMPOSE_PROJECT_NAME=%s%d", project, os.Getpid()))
	for n, variable := range []string{"HAP_PAGE_PORTS", "HAP_NATS_PORT", "HAP_REDIS_PORT", "HAP_KUBE_PORT"} {
		c.env = append(c.env, variable+"="+strconv.Itoa(ports[n]))
	}
	c.sweep()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.output("logs", "--no-color", "--tail", "30"))
		}
		c.ctx = context.WithoutCancel(ctx)
		c.run("down", "-v", "-t", "5")
	})
	return c
}

// sweep takes down the projects of test processes that are gone.
func (c *compose) sweep() {
	c.t.Helper()
	const label = "com.docker.compose.project"
	out, err := exec.CommandContext(c.ctx, "docker", "ps", "--all", "--filter", "label="+label, "--format", "{{.Label \""+label+"\"}}").Output()
	if err != nil {
		c.t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if pid, ours := strings.CutPrefix(name, project); ours && containers.Gone(pid) {
			c.run("-p", name, "down", "-v", "-t", "5")
		}
	}
}

func (c *compose) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.ctx, c.program[0], append(c.program[1:len(c.program):len(c.program)], args...)...)
	cmd.Dir, cmd.Env = c.root, c.env
	return cmd
}

// run runs a command, which must succeed.
func (c *compose) run(args ...string) {
	c.t.Helper()
	if out, err := c.command(args...).CombinedOutput(); err != nil {
		c.t.Fatalf("%v %v: %v\n%s", c.program, args, err, out)
	}
}

// output returns the output of a command, also of one that fails, and its error.
func (c *compose) output(args ...string) string {
	out, err := c.command(args...).CombinedOutput()
	return fmt.Sprintf("%s%v", out, err)
}

// hapctl runs the service hapctl once and decodes its answer.
func (c *compose) hapctl(answer any, args ...string) {
	c.t.Helper()
	cmd := c.command(append([]string{"run", "--rm", "-T", "hapctl", "-o", "json"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		c.t.Fatalf("hapctl %v: %v\n%s%s", args, err, out, stderr.Bytes())
	}
}

// awaitReady waits until the worker is ready.
func (c *compose) awaitReady() {
	c.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for c.get("/readyz", "", "") != http.StatusOK {
		select {
		case <-c.ctx.Done():
			c.t.Fatal(context.Cause(c.ctx))
		case <-tick.C:
		}
	}
}

// page returns the status of the operations page.
func (c *compose) page(user, password string) int { return c.get("/", user, password) }

// get returns the HTTP status of a path of the worker, 0 without an answer.
func (c *compose) get(path, user, password string) int {
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", c.port, path), http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}
