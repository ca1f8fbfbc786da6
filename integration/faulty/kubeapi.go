// Package faulty has proxies for real servers. They inject faults when a test asks for them; all other
// requests go to the server.
package faulty

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// Fault is the fault of a request. The zero value is none.
type Fault struct {
	// Status is the status of the response. The server does not see the request.
	Status int
	// RetryAfter is the Retry-After header with Status, in seconds; 0 for none.
	RetryAfter int
	// Delay is how long the proxy waits before everything else.
	Delay time.Duration
	// CutBefore closes the connection. The server does not see the request.
	CutBefore bool
	// CutAfter forwards the request, and closes the connection instead of responding.
	CutAfter bool
	// Hold is how long the connection stays silent before CutBefore or CutAfter closes it.
	Hold time.Duration
}

// KubeAPI is a proxy for a Kubernetes API. Clients need no credentials.
type KubeAPI struct {
	addr     string
	upstream http.Handler
	close    func()
	choose   atomic.Pointer[func(*http.Request) Fault]

	mu     sync.Mutex
	server *http.Server // nil while the proxy is down
	served sync.WaitGroup
}

// NewKubeAPI starts a proxy for the API of config.
func NewKubeAPI(config *rest.Config) (*KubeAPI, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("faulty: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("faulty: %w", err)
	}
	k := &KubeAPI{addr: "127.0.0.1:0", close: client.CloseIdleConnections}
	k.upstream = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     client.Transport,
		FlushInterval: -1, // a watch has no end
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	k.Choose(nil)
	return k, k.Up()
}

// Choose sets the function that chooses the fault of each following request; nil injects none. f must be safe
// for concurrent use.
func (k *KubeAPI) Choose(f func(*http.Request) Fault) {
	if f == nil {
		f = func(*http.Request) Fault { return Fault{} }
	}
	k.choose.Store(&f)
}

// Up starts to serve, after Down again at the old address. If the proxy serves already, it does nothing.
func (k *KubeAPI) Up() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.server != nil {
		return nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", k.addr)
	if err != nil {
		return fmt.Errorf("faulty: %w", err)
	}
	k.addr = listener.Addr().String()
	server := &http.Server{Handler: k, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	k.server = server
	k.served.Go(func() { _ = server.Serve(listener) })
	return nil
}

// Down closes all connections, and refuses new ones.
func (k *KubeAPI) Down() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.server == nil {
		return
	}
	_ = k.server.Close()
	k.server = nil
	k.served.Wait()
}

// Close stops the proxy.
func (k *KubeAPI) Close() {
	k.Down()
	k.close()
}

// WriteKubeconfig writes a kubeconfig for the proxy.
func (k *KubeAPI) WriteKubeconfig(path string) error {
	return os.WriteFile(path, []byte(`apiVersion: v1
kind: Config
current-context: faulty
contexts: [{name: faulty, context: {cluster: faulty, user: faulty}}]
clusters: [{name: faulty, cluster: {server: "http://`+k.addr+`"}}]
users: [{name: faulty, user: {}}]
`), 0o600)
}

// ServeHTTP forwards a request, or injects its fault.
func (k *KubeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := (*k.choose.Load())(r)
	if !wait(r.Context(), fault.Delay) {
		return
	}
	switch {
	case fault.CutBefore:
		wait(r.Context(), fault.Hold)
		panic(http.ErrAbortHandler)
	case fault.Status != 0:
		refuse(w, fault)
	case fault.CutAfter:
		k.upstream.ServeHTTP(&dropped{header: http.Header{}}, r)
		wait(r.Context(), fault.Hold)
		panic(http.ErrAbortHandler)
	default:
		k.upstream.ServeHTTP(w, r)
	}
}

// wait waits for d. It returns false if the client is gone before.
func wait(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refuse responds with a Status, like the Kubernetes API.
func refuse(w http.ResponseWriter, f Fault) {
	reasons := map[int]string{
		http.StatusConflict: "Conflict", http.StatusTooManyRequests: "TooManyRequests",
		http.StatusInternalServerError: "InternalError", http.StatusServiceUnavailable: "ServiceUnavailable",
		http.StatusForbidden: "Forbidden", http.StatusGatewayTimeout: "Timeout",
	}
	w.Header().Set("Content-Type", "application/json")
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	w.WriteHeader(f.Status)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"injected"}`,
		reasons[f.Status], f.Status)
}

// dropped discards a response.
type dropped struct{ header http.Header }

func (d *dropped) Header() http.Header         { return d.header }
func (d *dropped) Write(p []byte) (int, error) { return len(p), nil }
func (d *dropped) WriteHeader(int)             {}
