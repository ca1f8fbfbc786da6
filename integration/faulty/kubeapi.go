// Package faulty puts proxies in front of real servers that fail as real ones
// do, when a test says so: what passes is answered by the server itself.
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

// Fault says what happens to a request. The zero value lets it pass.
type Fault struct {
	// Status is answered in place of the server, which sees nothing: 409, 429, 500.
	Status int
	// RetryAfter goes with Status, in seconds; 0 is none.
	RetryAfter int
	// Delay comes before everything else.
	Delay time.Duration
	// CutBefore closes the connection; the server sees nothing.
	CutBefore bool
	// CutAfter lets the server do it, and closes the connection in place of its answer.
	CutAfter bool
	// Hold is how long a connection that is to be cut stays silent before.
	Hold time.Duration
}

// KubeAPI is a proxy in front of a Kubernetes API. It asks for no credentials.
type KubeAPI struct {
	addr     string
	upstream http.Handler
	close    func()
	choose   atomic.Pointer[func(*http.Request) Fault]

	mu     sync.Mutex
	server *http.Server // nil while it is down
	served sync.WaitGroup
}

// NewKubeAPI starts a proxy in front of the API that config leads to.
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

// Choose sets the function that says what happens to each request from now on;
// nil lets all pass. It is called by many goroutines at once.
func (k *KubeAPI) Choose(f func(*http.Request) Fault) {
	if f == nil {
		f = func(*http.Request) Fault { return Fault{} }
	}
	k.choose.Store(&f)
}

// Up serves again, at the address that it had before.
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

// Down cuts all connections and refuses new ones.
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

// Close ends the proxy for good.
func (k *KubeAPI) Close() {
	k.Down()
	k.close()
}

// WriteKubeconfig writes a kubeconfig that leads through the proxy.
func (k *KubeAPI) WriteKubeconfig(path string) error {
	return os.WriteFile(path, []byte(`apiVersion: v1
kind: Config
current-context: faulty
contexts: [{name: faulty, context: {cluster: faulty, user: faulty}}]
clusters: [{name: faulty, cluster: {server: "http://`+k.addr+`"}}]
users: [{name: faulty, user: {}}]
`), 0o600)
}

// ServeHTTP passes a request on, or does to it what was chosen.
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

// wait lets the time pass; false is a client that has gone.
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

// refuse answers as the Kubernetes API does.
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

// dropped takes an answer that no client gets.
type dropped struct{ header http.Header }

func (d *dropped) Header() http.Header         { return d.header }
func (d *dropped) Write(p []byte) (int, error) { return len(p), nil }
func (d *dropped) WriteHeader(int)             {}
