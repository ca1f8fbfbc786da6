package integration_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/app"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
	workerconfig "github.com/hap-worker/hap-worker/worker/config"
)

// secretBook are the secrets of a test, each known by what it is for.
type secretBook map[string]string

// make returns a secret that occurs nowhere else.
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

// way is a worker with its own connections, which succeed or fail.
type way struct {
	nats, redis string   // sections of the configuration; those where all is well if ""
	env         []string // above the configuration
	well        bool     // it becomes ready
	says        string   // what it says otherwise
}

// TestSecretsStayHidden puts a secret of a worker wherever one can stand, lets its
// connections succeed and fail, and looks for each in all that it and hapctl say, and
// in all that it answers.
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
	rest := oneAccountRules + fmt.Sprintf(`
gardener: {kubeconfig: %q, namespace: %s}
worker: {budget: 1s, ackWait: 3s, drain: 1s}
telemetry:
  listen: "127.0.0.1:0"
  logLevel: debug
  otlp: {endpoint: %q, headers: {authorization: %q}}
  page: {username: admin, passwordFile: %q, tokenFile: %q}
`, l.tokenKubeconfig(dir, secrets.make("kubernetes-token")), l.stack.Target.Namespace, collector.URL,
		"Bearer "+secrets.make("otlp-header"), file("page-password"), file("page-token"))
	natsURL := func(password string) string {
		return strings.Replace(server.ClientURL(), "nats://", "nats://worker:"+password+"@", 1)
	}
	secrets["seed"] = "SU" + strings.Repeat("ABCDEFG", 8)
	const invalid = "not its content"
	// What cannot be reached or lets no client in: a dead port, wrong passwords, a NATS
	// token in the URL's user, a URL that cannot be read.
	ways := map[string]way{
		"all is well":            {well: true},
		"wrong NATS password":    {env: []string{"HAP_NATS_URL=" + natsURL(secrets.make("wrong-nats"))}, says: "Authorization Violation"},
		"token, nobody there":    {env: []string{"HAP_NATS_URL=nats://" + natsToken + "@127.0.0.1:1"}, says: "refused"},
		"Redis password in URL":  {redis: fmt.Sprintf(`{url: "redis://:%s@127.0.0.1:%d"}`, secrets.make("wrong-redis"), port), says: "WRONGPASS"},
		"Redis, nobody there":    {redis: `{url: "redis://u:` + secrets.make("dead-redis") + `@127.0.0.1:1"}`, says: "refused"},
		"unreadable Redis URL":   {env: []string{"HAP_REDIS_URL=redis://u:" + secrets.make("unreadable-redis") + "@a:b:c"}, says: "HAP_REDIS_URL"},
		"seed in place of file":  {env: []string{"HAP_NATS_NKEY=" + secrets["seed"]}, says: invalid},
		"creds in place of file": {env: []string{"HAP_NATS_CREDENTIALS=-----BEGIN NATS USER JWT-----\n" + secrets.make("creds")}, says: invalid},
	}
	maps.Copy(ways, keyWays(t, secrets))
	maps.Copy(ways, sentinelWays(t, secrets, port, redisPassword, file))
	bin := workerBinary(t)
	t.Run("ways", func(t *testing.T) {
		for name, w := range ways {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				text := fmt.Sprintf("%s\nnats: %s\nredis: %s\n", rest,
					cmp.Or(w.nats, fmt.Sprintf("{url: %q}", natsURL(natsPassword))),
					cmp.Or(w.redis, fmt.Sprintf("{url: \"redis://127.0.0.1:%d\", passwordFile: %q}", port, redisPassword)))
				config := filepath.Join(t.TempDir(), "hap.yaml")
				if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				secrets.in(t, "hap-worker config", said(t, bin, w.env, "config", "--config", config))
				secrets.in(t, "the worker", lived(t, bin, config, w, func() {
					secrets.in(t, "what is answered", rejections(t, config))
				}))
				for _, args := range [][]string{{"pools"}, {"dead", "list"}, {"dead", "show", "1"}} {
					secrets.in(t, "hapctl", hapctlWith(t, config, w.env, args...))
				}
			})
		}
	})
	if sent.String() == "" {
		t.Error("the collector was sent nothing")
	}
	secrets.in(t, "the traces", sent.String())
}

// keyWays log in to NATS with keys: valid ones, and such as the servers do not know.
func keyWays(t *testing.T, secrets secretBook) map[string]way {
	t.Helper()
	_, public, seedFile := user(t)
	_, _, otherFile := user(t)
	for what, file := range map[string]string{"nats-seed": seedFile, "other-nats-seed": otherFile} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		secrets[what] = string(content)
	}
	seeded := natsWith(t, "authorization {users = [{nkey: "+public+"}]}")
	operated, account := operatedNATS(t)
	other, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	var ours, foreign string
	ours, secrets["nats-jwt"], secrets["nats-jwt-seed"] = credentials(t, account)
	foreign, secrets["other-nats-jwt"], secrets["other-nats-jwt-seed"] = credentials(t, other)
	section := func(url, key, file string) string { return fmt.Sprintf("{url: %q, %s: %q}", url, key, file) }
	return map[string]way{
		"NATS seed":                      {nats: section(seeded.ClientURL(), "nkey", seedFile), well: true},
		"another NATS seed":              {nats: section(seeded.ClientURL(), "nkey", otherFile), says: "Authorization Violation"},
		"NATS credentials":               {nats: section(operated.ClientURL(), "credentials", ours), well: true},
		"credentials of another account": {nats: section(operated.ClientURL(), "credentials", foreign), says: "Authorization Violation"},
	}
}

// sentinelWays reach the Redis on a port through a sentinel that asks for a password.
func sentinelWays(t *testing.T, secrets secretBook, port int, redisPassword string, file func(what string) string) map[string]way {
	t.Helper()
	right, wrong := file("sentinel-password"), file("wrong-sentinel")
	sentinel := freePort(t)
	sentinelProcess(t, sentinel, port, "sentinel auth-pass accounts "+secrets["redis-password"], "requirepass "+secrets["sentinel-password"])
	section := func(password string) string {
		return fmt.Sprintf("{url: \"redis://127.0.0.1:%d\", sentinelMaster: accounts, passwordFile: %q, sentinelPasswordFile: %q}", sentinel, redisPassword, password)
	}
	own := fmt.Sprintf("{url: %q}", natsWith(t, "").ClientURL())
	return map[string]way{
		"sentinel":                {nats: own, redis: section(right), well: true},
		"wrong sentinel password": {nats: own, redis: section(wrong), says: fmt.Sprintf("asking the sentinels at 127.0.0.1:%d", sentinel)},
	}
}

// rejections publishes by the worker's own connection what can never be processed, and
// returns all replies and dead letters that come of it.
func rejections(t *testing.T, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := workerconfig.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := connect.NATS(ctx, c.NATS, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	replies, letters := 0, len(badInputs())
	for n, bad := range badInputs() {
		if bad.answer != "" {
			replies++
		}
		header := nats.Header{"Content-Type": {events.ContentType}, "Nats-Msg-Id": {fmt.Sprint("bad/", n)}}
		if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: bad.subject, Data: []byte(bad.data), Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	var answers strings.Builder
	for name, want := range map[string]int{events.StreamReplies: replies, events.StreamDead: letters} {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		for n := range want {
			eventually(ctx, t, func() error {
				msg, err := stream.GetMsg(ctx, uint64(n)+1)
				if err == nil {
					fmt.Fprintf(&answers, "%s %v %s\n", msg.Subject, msg.Header, msg.Data)
				}
				return err
			})
		}
	}
	return answers.String()
}

var listeningAt = regexp.MustCompile(`"msg":"listening","addr":"([^"]+)"`)

// lived runs the worker until it is ready, or says what is wrong, and returns all that
// it said: its log, and what its listener answers. A ready one does what meanwhile asks.
func lived(t *testing.T, bin, config string, w way, meanwhile func()) string {
	t.Helper()
	log, want := &safeBuffer{}, cmp.Or(w.says, `"msg":"ready"`)
	run := exec.CommandContext(t.Context(), bin, "--config", config)
	run.Env = append(os.Environ(), w.env...)
	run.Stdout, run.Stderr = log, log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = run.Wait(); close(ended) }()
	defer func() {
		_ = run.Process.Signal(os.Interrupt)
		<-ended
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_ = until(ctx, func() error {
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
	if !strings.Contains(log.String(), want) {
		t.Fatalf("it does not say %s: %s", want, log.String())
	}
	if w.well {
		meanwhile()
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
// those of the variables that are its own flags.
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
	_ = app.Run(ctx, args, strings.NewReader(""), out, out)
	return out.String()
}
