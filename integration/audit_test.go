package integration_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/cmd/hapctl/app"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// secretContent is in every Secret of the test, as the API encodes it.
const secretContent = "bm90IGZvciB5b3VyIGV5ZXM="

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  resources: [{group: "", resources: [secrets]}]
- level: None
`

// auditEntry is a line of kube-apiserver's audit log.
type auditEntry struct {
	Verb           string          `json:"verb"`
	RequestURI     string          `json:"requestURI"`
	UserAgent      string          `json:"userAgent"`
	RequestObject  json.RawMessage `json:"requestObject"`
	ResponseObject json.RawMessage `json:"responseObject"`
}

// TestRealSecretsAreNeverRead lets workers and hapctl do all that they do where
// accounts are Secrets. The audit log of the API server shows requests for
// metadata only and no contents in any response; those of watches, which no audit
// log has, are seen on the wire.
func TestRealSecretsAreNeverRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	l := landscapeOn(t, startStack(t, stack.Options{
		Config:   []byte(olderRules + "gardener: {namespace: garden-audit, resource: secrets, labels: legacy}\n"),
		Accounts: append(accounts("aws", 2), accounts("gcp", 1)...),
		Gardener: stack.CRDGardener,
		KubeArgs: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--audit-log-mode=blocking"},
	}))
	l.fillSecrets("aws-01", "aws-02", "gcp-01")
	wire, env := l.tapped()
	l.liveOn(env)

	entries := readAudit(t, log)
	seen := map[string]int{}
	for _, e := range entries {
		whole := strings.Contains(string(e.ResponseObject), secretContent)
		if !strings.Contains(e.UserAgent, "hap-worker") {
			if whole {
				seen["control"]++
			}
			continue
		}
		seen[e.Verb]++
		var answer struct {
			Kind string          `json:"kind"`
			Data json.RawMessage `json:"data"`
		}
		if len(e.ResponseObject) > 0 {
			if err := json.Unmarshal(e.ResponseObject, &answer); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(answer.Kind, "PartialObjectMetadata") && answer.Kind != "Status" {
				t.Errorf("%s %s is answered with a %s", e.Verb, e.RequestURI, answer.Kind)
			}
		}
		if whole || answer.Data != nil || strings.Contains(string(e.ResponseObject), `"data"`) {
			t.Errorf("%s %s is answered with contents", e.Verb, e.RequestURI)
		}
		if e.Verb == "patch" && !strings.Contains(string(e.RequestObject), `"resourceVersion"`) {
			t.Errorf("a patch without resourceVersion: %s", e.RequestObject)
		}
	}
	for _, verb := range []string{"get", "patch", "list", "watch"} {
		if seen[verb] == 0 {
			t.Errorf("the log has no %s of ours, only %v", verb, seen)
		}
	}
	if seen["control"] == 0 {
		t.Error("the log does not show the contents that the test itself has read")
	}
	told := wire.String()
	if !strings.Contains(told, "aws-01") || strings.Contains(told, secretContent) || strings.Contains(told, "not for your eyes") {
		t.Errorf("on the wire there are %d bytes with aws-01 %t and with contents %t",
			len(told), strings.Contains(told, "aws-01"), strings.Contains(told, secretContent))
	}
}

// fillSecrets puts contents into Secrets, and reads one whole: what the audit log
// shows of that must not be there of the worker.
func (l *landscape) fillSecrets(names ...string) {
	l.t.Helper()
	secrets := l.api.Resource(secretsResource).Namespace(l.stack.Target.Namespace)
	for _, name := range names {
		patch := fmt.Appendf(nil, `{"data":{"credentials":%q}}`, secretContent)
		if _, err := secrets.Patch(l.ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			l.t.Fatal(err)
		}
	}
	if _, err := secrets.Get(l.ctx, names[0], metav1.GetOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// liveOn does what happens to accounts: claims, an account that is given back, a
// label that another writer changes, a loss of Redis with its rebuild, and the
// tables of hapctl.
func (l *landscape) liveOn(env []string) {
	l.t.Helper()
	w := l.work(daemon.Options{Env: env})
	first := ask("rt-1", "ga-1")
	l.provision(first, ask("rt-2", "ga-2"))
	name := l.assigned(first)
	if gone := l.left(goes(first.RuntimeID, "ga-1")); !gone.MarkedDirty {
		l.t.Fatalf("the deprovision is answered %+v", gone)
	}
	if r := l.released(releaseEvent("clean", name, 0)); r.Status != events.StatusReturned {
		l.t.Fatalf("the release is answered %+v", r)
	}
	l.awaitSettled()
	if err := w.end(); err != nil {
		l.t.Fatal(err)
	}
	options, err := redis.ParseURL(l.stack.Redis.URL())
	if err != nil {
		l.t.Fatal(err)
	}
	store := redis.NewClient(options)
	defer store.Close()
	if err := store.FlushAll(l.ctx).Err(); err != nil {
		l.t.Fatal(err)
	}
	l.work(daemon.Options{Env: env})
	third := ask("rt-3", "ga-3")
	l.provision(third)
	l.assigned(third)
	kubeconfig := strings.TrimPrefix(env[0], "HAP_GARDENER_KUBECONFIG=")
	for _, args := range [][]string{{"bindings"}, {"pools"}, {"counters", "verify"}} {
		var out, talk bytes.Buffer
		args = append(args, "--config", l.stack.Config, "--kubeconfig", kubeconfig)
		if code := app.Run(l.ctx, args, strings.NewReader(""), &out, &talk); code != 0 {
			l.t.Errorf("hapctl %v: exit code %d, %s%s", args, code, out.String(), talk.String())
		}
	}
}

// tapped returns a kubeconfig, in the environment of a worker, that leads through
// a proxy which keeps what it hands out of Secrets.
func (l *landscape) tapped() (*safeBuffer, []string) {
	l.t.Helper()
	config, err := l.stack.Kube.Config()
	if err != nil {
		l.t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		l.t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		l.t.Fatal(err)
	}
	wire := &safeBuffer{}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Accept-Encoding", "identity") // to be read
		},
		Transport: client.Transport, FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			if strings.Contains(r.Request.URL.Path, "/secrets") {
				r.Body = &teed{r.Body, io.TeeReader(r.Body, wire)}
			}
			return nil
		},
	})
	l.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		client.CloseIdleConnections()
	})
	path := filepath.Join(l.t.TempDir(), "kubeconfig")
	err = os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: tap
contexts: [{name: tap, context: {cluster: tap, user: tap}}]
clusters: [{name: tap, cluster: {server: %q}}]
users: [{name: tap, user: {}}]
`, server.URL), 0o600)
	if err != nil {
		l.t.Fatal(err)
	}
	return wire, []string{"HAP_GARDENER_KUBECONFIG=" + path}
}

// teed is a body of which a copy is kept.
type teed struct {
	io.Closer
	io.Reader
}

func readAudit(t *testing.T, path string) []auditEntry {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var entries []auditEntry
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e auditEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return entries
}
