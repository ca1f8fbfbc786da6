package connect

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// guard is an API server that accepts one token, and echoes the request's body.
type guard struct {
	mu    sync.Mutex
	token string
	seen  []string
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	g.seen = append(g.seen, token)
	if token != g.token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = io.Copy(w, r.Body)
}

func (g *guard) takes(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token, g.seen = token, nil
}

// kubeconfig writes a kubeconfig. client-go sends tokens over TLS only.
func kubeconfig(t *testing.T, file, server, token string) {
	t.Helper()
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u, namespace: garden}}],
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: u, user: {token: %q}}]}`, server, token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKubeconfigIsFollowed: if the server refuses the old token, the same request is repeated with the new
// token and its body. A kubeconfig that cannot be read, or that names another server, is ignored.
func TestKubeconfigIsFollowed(t *testing.T) {
	t.Parallel()
	g := &guard{token: "old"}
	server := httptest.NewTLSServer(g)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig(t, file, server.URL, "old")
	config, namespace, err := cluster(file, "", "gardener.kubeconfig")
	if err != nil || namespace != "garden" {
		t.Fatal(namespace, err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(want string) {
		t.Helper()
		resp, err := client.Post(config.Host, "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if got := fmt.Sprint(resp.StatusCode, " ", string(body)); err != nil || got != want {
			t.Errorf("the answer is %q, %v, want %q; tokens %q", got, err, want, g.seen)
		}
	}
	ask("200 hello")
	g.takes("new")
	ask("401 ")
	if err := os.WriteFile(file, []byte("{apiVersion: v1, kind: Conf"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask("401 ")
	kubeconfig(t, file, server.URL+"/elsewhere", "new")
	ask("401 ")
	kubeconfig(t, file, server.URL, "new")
	ask("200 hello")
	ask("200 hello")
	if want := []string{"old", "old", "old", "old", "new", "new"}; !slices.Equal(g.seen, want) {
		t.Errorf("tokens %q, want %q", g.seen, want)
	}
}

// TestKubeconfigChangesAtTheStart: a change between two readings at the start is noticed.
func TestKubeconfigChangesAtTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig(t, file, "https://127.0.0.1:1", "old")
	load := func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", file) }
	config, err := load()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig(t, file, "https://127.0.0.1:1", "new")
	read := 0
	followed, err := following(config, func() (*rest.Config, error) {
		read++
		return load()
	}, []string{file})
	if err != nil {
		t.Fatal(err)
	}
	if c := followed.Transport.(*credentials); read != 1 || c.sum != c.read() {
		t.Errorf("the files were read %d times after their sum", read)
	}
}

// TestKubeconfigInTime: a changed token is used before the server refuses the old one.
func TestKubeconfigInTime(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig(t, file, "https://127.0.0.1:1", "old")
	config, _, err := cluster(file, "", "gardener.kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	c := config.Transport.(*credentials)
	at := c.looked
	c.now = func() time.Time { return at }
	kubeconfig(t, file, "https://127.0.0.1:1", "new")
	old := c.transport
	if c.current(at.Add(-lookEvery)) != old {
		t.Error("the file is looked at too often")
	}
	at = at.Add(lookEvery)
	if c.current(at.Add(-lookEvery)) == old {
		t.Error("the file is not followed")
	}
}
