package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// runs returns how a hap-worker that ends by itself has ended, and what it said.
func runs(t *testing.T, config string) (code int, output string) {
	t.Helper()
	binary, err := stack.Build(t.Context(), "hap-worker", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, binary, "--config", config)
	c.Env = []string{"HAP_TELEMETRY_LISTEN=127.0.0.1:0", "HOME=" + t.TempDir()}
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("the worker does not end:\n%s", out)
	}
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// TestInvalidConfiguration is a start that is refused with every fault, one per line.
func TestInvalidConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hap-worker.yaml")
	faulty := `
hap:
  rule: ["aws(", "aws -> XX", "azure", "azure", "no-such-plan"]
  multiHyperscalerAccount: {strategy: fill-randomly, limits: {aws: -1, nowhere: 3}}
nats: {replicas: 2, url: "::"}
worker: {concurrency: -3, mode: idle}
telemetry: {logLevel: loud}
unknown: true
`
	if err := os.WriteFile(path, []byte(faulty), 0o600); err != nil {
		t.Fatal(err)
	}
	code, output := runs(t, path)
	if code != daemon.ExitInvalidConfig {
		t.Errorf("exit code %d, want %d", code, daemon.ExitInvalidConfig)
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for _, key := range []string{
		"hap.rule", "hap.multiHyperscalerAccount.strategy", "hap.multiHyperscalerAccount.limits.aws", "hap.multiHyperscalerAccount.limits.nowhere",
		"nats.replicas", "nats.url", "worker.concurrency", "worker.mode", "telemetry.logLevel", "unknown",
	} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, key) }) {
			t.Errorf("no line names %s", key)
		}
	}
	if t.Failed() {
		t.Logf("it said:\n%s", output)
	}
}

// TestRedisEvicts is a Redis that would forget assignments: the start is refused
// at once, since waiting would not mend it.
func TestRedisEvicts(t *testing.T) {
	t.Parallel()
	requireRedis(t)
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	options, err := redis.ParseURL(l.stack.Redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	if err := client.ConfigSet(l.ctx, "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	code, output := runs(t, l.stack.Config)
	if code != daemon.ExitFailure || !strings.Contains(output, "allkeys-lru") || !strings.Contains(output, "noeviction") {
		t.Errorf("exit code %d, want %d and a word about allkeys-lru:\n%s", code, daemon.ExitFailure, output)
	}
}

// TestReload edits the file of a running worker.
func TestReload(t *testing.T) {
	t.Parallel()
	all := append(accounts("gcp", 1), accounts("gcp_cf-eu30", 1)...)
	l := newLandscape(t, oneAccountRules, all)
	w := l.work(daemon.Options{})
	in := func(id, tenant string) events.Event {
		e := askPlan(id, tenant, "gcp")
		e.Provision.PlatformRegion = "cf-eu30"
		return e
	}
	first := in("rt-1", "ga-1")
	l.provision(first)
	if got := l.assigned(first); got != "gcp-01" {
		t.Fatalf("before the change the binding is %s", got)
	}
	l.edit("- gcp(PR=cf-sa30) -> PR", "- gcp(PR=cf-eu30) -> PR")
	l.shows(w, "hap_config_reloads_total", "1")
	second := in("rt-2", "ga-1")
	l.provision(second)
	if r := l.answered(second); r.Binding == nil || r.Binding.Name != "gcp-cf-eu30-01" || r.Decision.Rule != "gcp(PR=cf-eu30) -> PR" {
		t.Errorf("after the change the answer is %+v by %+v", r.Binding, r.Decision)
	}
	// I10: what is assigned stays, also for who asks again under another id.
	again := in("rt-1", "ga-1")
	again.ID = "req-again"
	l.provision(again)
	if r := l.answered(again); r.Binding == nil || r.Binding.Name != "gcp-01" || r.Decision.Pool != "gcp" {
		t.Errorf("asked again it is answered %+v by %+v", r.Binding, r.Decision)
	}

	// An invalid file changes nothing, and is told loudly.
	l.edit("- gcp(PR=cf-eu30) -> PR", "- gcp(PR=cf-eu30) -> NOWHERE")
	l.shows(w, "hap_config_reload_failures_total", "1")
	if log := w.log.String(); !strings.Contains(log, "rejected the changed configuration; the last valid one stays in use") || !strings.Contains(log, "NOWHERE") {
		t.Error("the log does not say what is wrong with the file")
	}
	third := in("rt-3", "ga-1")
	l.provision(third)
	if got := l.assigned(third); got != "gcp-cf-eu30-01" {
		t.Errorf("with an invalid file the binding is %s", got)
	}
	if got := w.metric("hap_config_reloads_total"); got != "1" {
		t.Errorf("%s reloads are counted, want 1", got)
	}
	// What needs a restart is named, the rest is taken over.
	l.edit("-> NOWHERE", "-> PR", "hap:", "worker: {concurrency: 7}\nhap:\n  waiting: {timeout: 0s}")
	l.shows(w, "hap_config_reloads_total", "2")
	eventually(l.ctx, t, func() error {
		if !strings.Contains(w.log.String(), "needs a restart: worker.concurrency") {
			return errors.New("the log does not name worker.concurrency")
		}
		return nil
	})
	none := in("rt-4", "ga-2")
	l.provision(none)
	if r := l.answered(none); r.Status != events.StatusRejected || r.Error.Code != "PoolExhausted" {
		t.Errorf("where nobody may wait the answer is %s %+v", r.Status, fmt.Sprint(r.Error))
	}
}
