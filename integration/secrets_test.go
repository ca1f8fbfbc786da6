package integration_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/operator"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// secretBook are the secrets of a test, each known by what it is for.
type secretBook map[string]string

// make gives a secret that occurs nowhere else.
func (b secretBook) make(what string) string {
	b[what] = "geheim-" + what + "-4711"
	return b[what]
}

// in reports every secret that a text has, plain, in base64 or as part of a URL.
func (b secretBook) in(t *testing.T, where, text string) {
	t.Helper()
	for what, secret := range b {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), strings.ReplaceAll(secret, "-", "%2D")} {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("%s shows the secret %s:\n…%s…", where, what, text[max(0, at-300):min(len(text), at+100)])
			}
		}
	}
}

// TestSecretsStayHidden gives a worker a secret wherever one can stand, lets its
// connections succeed and fail, and looks for each in all that it and hapctl say.
func TestSecretsStayHidden(t *testing.T) {
	t.Parallel()
	requireRedis(t)
	secrets := secretBook{}
	dir := t.TempDir()
	file := func(what string) string {
		name := filepath.Join(dir, what)
		if err := os.WriteFile(name, []byte(secrets.make(what)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	natsPassword, natsToken := secrets.make("nats-password"), secrets.make("nats-token")
	server := natsWith(t, fmt.Sprintf("authorization {users = [{user: worker, password: %q}]}", natsPassword))
	redisPassword := file("redis-password")
	port := freePort(t)
	redisProcess(t, port, "--port", fmt.Sprint(port), "--requirepass", secrets["redis-password"])
	sent := &safeBuffer{} // to the collector of traces
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(sent, r.Body) }))
	defer collector.Close()
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	kubeconfig := l.tokenKubeconfig(dir, secrets.make("kubernetes-token"))
	good := oneAccountRules + fmt.Sprintf(`
nats: {url: %q}
redis: {url: "redis://127.0.0.1:%d", passwordFile: %q}
gardener: {kubeconfig: %q, namespace: %s}
worker: {budget: 1s, ackWait: 3s, drain: 1s}
telemetry:
  listen: "127.0.0.1:0"
  logLevel: debug
  otlp: {endpoint: %q, headers: {authorization: %q}}
  page: {username: admin, passwordFile: %q, tokenFile: %q}
`, strings.Replace(server.ClientURL(), "nats://", "nats://worker:"+natsPassword+"@", 1), port, redisPassword, kubeconfig, l.stack.Target.Namespace,
		collector.URL, "Bearer "+secrets.make("otlp-header"), file("page-password"), file("page-token"))
	bin := workerBinary(t)
	config := filepath.Join(dir, "good.yaml")
	if err := os.WriteFile(config, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets["seed"] = "SU" + strings.Repeat("ABCDEFG", 8)
	// What cannot be reached or lets nobody in: a dead port, wrong passwords, a NATS
	// token in the URL's user, a URL that cannot be read.
	ways := map[string][]string{
		"all is well":            nil,
		"wrong NATS password":    {"HAP_NATS_URL=" + strings.Replace(server.ClientURL(), "nats://", "nats://worker:"+secrets.make("wrong-nats")+"@", 1)},
		"token, nobody there":    {"HAP_NATS_URL=nats://" + natsToken + "@127.0.0.1:1"},
		"Redis password in URL":  {fmt.Sprintf("HAP_REDIS_URL=redis://:%s@127.0.0.1:%d", secrets.make("wrong-redis"), port), "HAP_REDIS_PASSWORDFILE="},
		"Redis, nobody there":    {"HAP_REDIS_URL=redis://u:" + secrets.make("dead-redis") + "@127.0.0.1:1", "HAP_REDIS_PASSWORDFILE="},
		"unreadable Redis URL":   {"HAP_REDIS_URL=redis://u:" + secrets.make("unreadable-redis") + "@a:b:c"},
		"seed in place of file":  {"HAP_NATS_NKEY=" + secrets["seed"]},
		"creds in place of file": {"HAP_NATS_CREDENTIALS=-----BEGIN NATS USER JWT-----\n" + secrets.make("creds")},
	}
	t.Run("ways", func(t *testing.T) {
		for name, env := range ways {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				secrets.in(t, "hap-worker config", said(t, bin, env, "config", "--config", config))
				secrets.in(t, "hapctl", hapctlWith(t, config, env, "pools"))
				secrets.in(t, "hapctl", hapctlWith(t, config, env, "dead", "list"))
				secrets.in(t, "the worker", lived(t, bin, config, env, name == "all is well"))
			})
		}
	})
	if sent.String() == "" {
		t.Error("the collector was sent nothing")
	}
	secrets.in(t, "the traces", sent.String())
}

var listeningAt = regexp.MustCompile(`"msg":"listening","addr":"([^"]+)"`)

// lived runs the worker until it is ready, or says what is wrong, and gives all that
// it said: its log, and what its listener answers.
func lived(t *testing.T, bin, config string, env []string, well bool) string {
	t.Helper()
	log, want := &safeBuffer{}, `"level":"WARN"`
	if well {
		want = `"msg":"ready"`
	}
	run := exec.CommandContext(t.Context(), bin, "--config", config)
	run.Env = append(os.Environ(), env...)
	run.Stdout, run.Stderr = log, log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = run.Wait(); close(ended) }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err := until(ctx, func() error {
		select {
		case <-ended:
			return nil
		default:
		}
		if !strings.Contains(log.String(), want) {
			return errors.New("it has not said " + want)
		}
		return nil
	})
	if err != nil || well && !strings.Contains(log.String(), want) {
		t.Errorf("%v: %s", err, log.String())
	}
	answers := ""
	if at := listeningAt.FindStringSubmatch(log.String()); at != nil {
		for _, path := range []string{"/metrics", "/readyz", "/healthz", "/"} {
			if _, body, err := fetch("http://" + at[1] + path); err == nil {
				answers += body
			}
		}
	}
	_ = run.Process.Signal(os.Interrupt)
	<-ended
	if log.String() == "" {
		t.Error("the worker says nothing")
	}
	return log.String() + answers
}

// tokenKubeconfig is the stack's with one more secret in it.
func (l *landscape) tokenKubeconfig(dir, token string) string {
	l.t.Helper()
	content, err := os.ReadFile(l.stack.Kube.Kubeconfig())
	if err != nil {
		l.t.Fatal(err)
	}
	name := filepath.Join(dir, "kubeconfig")
	text := strings.Replace(string(content), "users:", "users:\n- name: other\n  user: {token: "+token+"}", 1)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return name
}

// workerBinary is the daemon as it is shipped.
func workerBinary(t *testing.T) string {
	t.Helper()
	bin, err := stack.Build(t.Context(), "hap-worker", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// said is all that a run of the program writes.
func said(t *testing.T, bin string, env []string, args ...string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), bin, args...)
	run.Env = append(os.Environ(), env...)
	out, _ := run.CombinedOutput()
	if len(out) == 0 {
		t.Fatalf("%v says nothing", args)
	}
	return string(out)
}

// hapctlWith is all that hapctl says with the connections of a configuration and
// those of the variables that are flags of its own.
func hapctlWith(t *testing.T, config string, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // most of them lead nowhere
	defer cancel()
	out := &safeBuffer{}
	args = append(args, "--config", config)
	for _, variable := range env {
		key, value, _ := strings.Cut(variable, "=")
		switch key {
		case "HAP_NATS_URL":
			args = append(args, "--nats-url", value)
		case "HAP_REDIS_URL":
			args = append(args, "--redis-url", value)
		}
	}
	_ = operator.Run(ctx, args, strings.NewReader(""), out, out)
	return out.String()
}
