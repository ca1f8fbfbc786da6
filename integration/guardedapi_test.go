package integration_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/hap-worker/hap-worker/integration/faulty"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// guardedAPI is a Kubernetes API over TLS that takes one token, in front of the stack's.
type guardedAPI struct {
	t          *testing.T
	kubeconfig string
	server     *httptest.Server
	upstream   http.Handler
	secrets    int
	serves     atomic.Pointer[tls.Certificate]
	token      atomic.Pointer[string]
	refused    atomic.Int64
}

func newGuardedAPI(t *testing.T, s *stack.Stack) *guardedAPI {
	t.Helper()
	config, err := s.Kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faulty.NewKubeAPI(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	g := &guardedAPI{t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), upstream: proxy}
	g.server = httptest.NewUnstartedServer(g)
	// Not GetCertificate: without a server name, as for an address, the server's own would be shown.
	g.server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*g.serves.Load()}}, nil
	}}
	g.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	write := g.renew()
	g.server.StartTLS()
	t.Cleanup(g.server.Close)
	write()
	return g
}

// ServeHTTP passes on what has the token.
func (g *guardedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+*g.token.Load() {
		g.refused.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.Header.Del("Authorization") // the proxy has its own
	g.upstream.ServeHTTP(w, r)
}

// renew has the server take another token, and show the certificate of another
// authority. The kubeconfig has both once write is called.
func (g *guardedAPI) renew() (write func()) {
	g.t.Helper()
	g.secrets++
	authority, token := newAuthority(g.t), fmt.Sprintf("token-%d", g.secrets)
	served := authority.sign("server")
	certificate, err := tls.LoadX509KeyPair(served.cert, served.key)
	if err != nil {
		g.t.Fatal(err)
	}
	g.serves.Store(&certificate)
	g.token.Store(&token)
	return func() {
		ca, err := os.ReadFile(authority.CA)
		if err != nil {
			g.t.Error(err)
		}
		text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %q}}], users: [{name: u, user: {token: %q}}]}`,
			g.server.URL, base64.StdEncoding.EncodeToString(ca), token)
		next := g.kubeconfig + ".next"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			g.t.Error(err)
		}
		if err := os.Rename(next, g.kubeconfig); err != nil {
			g.t.Error(err)
		}
	}
}

// change is renew at the server first: connections stay until the worker was refused,
// then they end, and the kubeconfig follows.
func (g *guardedAPI) change(ctx context.Context) {
	before := g.refused.Load()
	write := g.renew()
	eventually(ctx, g.t, func() error {
		if g.refused.Load() == before {
			return fmt.Errorf("no request was refused yet")
		}
		return nil
	})
	g.server.CloseClientConnections()
	write()
}
