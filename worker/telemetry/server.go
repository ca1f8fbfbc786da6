package telemetry

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/worker/crash"
)

// Check is a health check. Run returns nil if it succeeds, and otherwise an error for operators. It
// must return when its context is done.
type Check struct {
	Name string
	Run  func(context.Context) error
}

// checkTimeout is the time limit of a check. It is below the second that Kubernetes allows a probe by
// default.
const checkTimeout = 800 * time.Millisecond

// ServerOptions are the settings of a Server.
type ServerOptions struct {
	// Addr is the address to listen on, host:port. With port 0, any free port is used.
	Addr string
	// Metrics serves /metrics. Defaults to none: the path is not served.
	Metrics http.Handler
	// Alive has the checks of /healthz. They must fail only if a restart of the process helps.
	// Defaults to none: the worker is healthy while it answers.
	Alive []Check
	// Ready has the checks of /readyz. Defaults to none: the worker is ready while it answers.
	Ready []Check
	// More has further handlers, by a pattern of http.ServeMux. Defaults to none.
	More map[string]http.Handler
	// Instead, if set, serves all requests: then there are no probes and no metrics, and More is ignored.
	Instead http.Handler
	// TLS has the certificate of the listener. Defaults to none: plain HTTP.
	TLS *tls.Config
	// Log receives failed handshakes at level debug. Defaults to none.
	Log *slog.Logger
	// Grace is the time that requests have to finish when the server stops. Defaults to 3s.
	Grace time.Duration
}

// Server is the HTTP listener of a worker.
type Server struct {
	listener net.Listener
	server   *http.Server
	grace    time.Duration
}

// Listen opens the listener. Requests wait until Serve is called.
func Listen(ctx context.Context, o ServerOptions) (*Server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("telemetry listener: %w", err)
	}
	if o.Grace == 0 {
		o.Grace = 3 * time.Second
	}
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", newProbe("healthy", o.Alive))
	mux.Handle("GET /readyz", newProbe("ready", o.Ready))
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	for pattern, handler := range o.More {
		mux.Handle(pattern, handler)
	}
	var handler http.Handler = mux
	if o.Instead != nil {
		handler = o.Instead
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{listener: listener, grace: o.Grace, server: &http.Server{
		Handler:           handler,
		TLSConfig:         o.TLS,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 16,
	}}, nil
}

// Addr returns the address of the listener, with its actual port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve answers requests until ctx ends. Then it lets open requests finish for up to Grace, and cuts
// off the others. It returns an error if the listener fails or cannot be closed.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() {
		if s.server.TLSConfig != nil {
			failed <- s.server.ServeTLS(s.listener, "", "")
			return
		}
		failed <- s.server.Serve(s.listener)
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("telemetry listener: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
	defer cancel()
	err := s.server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.server.Close()
	}
	if served := <-failed; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = fmt.Errorf("telemetry listener: %w", served)
	}
	return err
}

// Serve listens on the address and answers requests until ctx ends. It calls bound once, with the
// actual address.
func Serve(ctx context.Context, o ServerOptions, bound func(addr string)) error {
	s, err := Listen(ctx, o)
	if err != nil {
		return err
	}
	if bound != nil {
		bound(s.Addr())
	}
	return s.Serve(ctx)
}

// probe is a handler that answers with the results of its checks.
type probe struct {
	word   string
	checks []*shared
}

// shared is a check. Requests that arrive during a run share its result.
type shared struct {
	Check
	timeout time.Duration
	mu      sync.Mutex
	current *run
}

// run is one run of a check. err may be read after done is closed.
type run struct {
	done chan struct{}
	err  error
}

func newProbe(word string, checks []Check) *probe {
	p := &probe{word: word}
	for _, check := range checks {
		p.checks = append(p.checks, &shared{Check: check, timeout: checkTimeout})
	}
	return p
}

// Report is the answer of /healthz and /readyz.
type Report struct {
	Status  string        `json:"status"` // "healthy", "not healthy", "ready" or "not ready"
	Failing []string      `json:"failing,omitempty"`
	Checks  []CheckReport `json:"checks,omitempty"`
}

// CheckReport is the result of one check.
type CheckReport struct {
	Name    string  `json:"name"`
	OK      bool    `json:"ok"`
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"` // duration of the check
}

// ServeHTTP runs all checks at once. It answers 200 if all succeed, and otherwise 503.
func (p *probe) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	report := Report{Status: p.word, Checks: make([]CheckReport, len(p.checks))}
	var all sync.WaitGroup
	for i, check := range p.checks {
		all.Go(func() { report.Checks[i] = check.report() })
	}
	all.Wait()
	for _, check := range report.Checks {
		if !check.OK {
			report.Failing = append(report.Failing, check.Name)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if len(report.Failing) > 0 {
		report.Status = "not " + p.word
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(report) // the client may be gone; then no client can receive an error
}

// report joins the present run of the check, or starts one, and waits for the result. It waits no
// longer than the time limit, even if the check ignores its context. No other run starts before that
// run ends.
func (c *shared) report() CheckReport {
	begun := time.Now()
	patience := time.NewTimer(c.timeout)
	defer patience.Stop()
	current := c.join()
	var err error
	select {
	case <-current.done:
		err = current.err
	case <-patience.C:
		err = fmt.Errorf("no answer within %s", c.timeout)
	}
	report := CheckReport{Name: c.Name, OK: err == nil, Seconds: time.Since(begun).Seconds()}
	if err != nil {
		report.Error = err.Error()
	}
	return report
}

func (c *shared) join() *run {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		return c.current
	}
	begun := &run{done: make(chan struct{})}
	c.current = begun
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
		defer cancel()
		begun.err = crash.Guard(func() error { return c.Run(ctx) })
		if panicked, is := errors.AsType[*crash.Panic](begun.err); is {
			slog.ErrorContext(ctx, "a health check panicked", "check", c.Name, "error", panicked)
			begun.err = errors.New(panicked.Short())
		}
		c.mu.Lock()
		c.current = nil
		c.mu.Unlock()
		close(begun.done)
	}()
	return begun
}
