package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// served is a listener on a free port, and its own client.
type served struct {
	url    string
	client *http.Client
	stop   func() error
}

func serve(t *testing.T, o ServerOptions) *served {
	t.Helper()
	o.Addr = "127.0.0.1:0"
	ctx, cancel := context.WithCancel(context.Background())
	bound, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, o, func(addr string) { bound <- addr }) }()
	transport := &http.Transport{}
	s := &served{client: &http.Client{Transport: transport}, stop: sync.OnceValue(func() error {
		cancel()
		return <-ended
	})}
	select {
	case addr := <-bound:
		s.url = "http://" + addr
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		transport.CloseIdleConnections()
	})
	return s
}

func (s *served) get(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := s.client.Get(s.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func (s *served) report(t *testing.T, path string) (int, Report) {
	t.Helper()
	status, body := s.get(t, path)
	var report Report
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		t.Fatalf("%s: %v in %s", path, err, body)
	}
	return status, report
}

func holds(context.Context) error { return nil }

func TestReadyTellsTheTruth(t *testing.T) {
	t.Parallel()
	var connected atomic.Bool
	s := serve(t, ServerOptions{Ready: []Check{
		{"nats", func(context.Context) error {
			if connected.Load() {
				return nil
			}
			return errors.New("not connected to nats://n:4222")
		}},
		{"redis", holds},
	}})
	status, report := s.report(t, "/readyz")
	if status != http.StatusServiceUnavailable || report.Status != "not ready" || !slices.Equal(report.Failing, []string{"nats"}) {
		t.Errorf("before: %d %+v", status, report)
	}
	if report.Checks[0].Error != "not connected to nats://n:4222" || report.Checks[0].OK || !report.Checks[1].OK {
		t.Errorf("before: %+v", report.Checks)
	}
	connected.Store(true)
	status, report = s.report(t, "/readyz")
	if status != http.StatusOK || report.Status != "ready" || len(report.Failing) != 0 || len(report.Checks) != 2 {
		t.Errorf("after: %d %+v", status, report)
	}
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	s := serve(t, ServerOptions{
		Ready: []Check{{"nats", func(context.Context) error { return errors.New("gone") }}},
		Alive: []Check{{"consumer", func(context.Context) error {
			if stuck.Load() {
				return errors.New("no event was fetched for 5m")
			}
			return nil
		}}},
	})
	if status, report := s.report(t, "/healthz"); status != http.StatusOK || report.Status != "healthy" {
		t.Errorf("not ready is healthy: %d %+v", status, report)
	}
	stuck.Store(true)
	if status, report := s.report(t, "/healthz"); status != http.StatusServiceUnavailable || report.Status != "not healthy" {
		t.Errorf("stuck: %d %+v", status, report)
	}
}

// TestACheckThatHangs fails after the time limit, is not started a second time, and counts again once it has
// returned.
func TestACheckThatHangs(t *testing.T) {
	t.Parallel()
	var begun atomic.Int32
	release := make(chan struct{})
	check := &shared{timeout: time.Millisecond, Check: Check{"redis", func(context.Context) error {
		begun.Add(1)
		<-release
		return nil
	}}}
	for range 3 {
		if report := check.report(); report.OK || !strings.Contains(report.Error, "no answer within 1ms") {
			t.Errorf("hanging: %+v", report)
		}
	}
	if n := begun.Load(); n != 1 {
		t.Errorf("begun %d times", n)
	}
	last := check.join()
	close(release)
	<-last.done
	check.timeout = time.Minute
	if report := check.report(); !report.OK || begun.Load() != 2 {
		t.Errorf("after: %+v, begun %d times", report, begun.Load())
	}
}

// TestProbesShareARun: two that ask at once get the answer of one run.
func TestProbesShareARun(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	check := &shared{timeout: time.Minute, Check: Check{"redis", func(context.Context) error {
		<-release
		return nil
	}}}
	first, second := check.join(), check.join()
	if first != second {
		t.Error("the second did not join the first")
	}
	close(release)
	<-first.done
	if first.err != nil {
		t.Error(first.err)
	}
}

// TestACheckIsTold that its context has ended.
func TestACheckIsTold(t *testing.T) {
	t.Parallel()
	check := &shared{timeout: time.Millisecond, Check: Check{"nats", func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}}}
	run := check.join()
	<-run.done
	if !errors.Is(run.err, context.DeadlineExceeded) {
		t.Errorf("ended with %v", run.err)
	}
}

func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{})
	record(telemetry.Metrics)
	s := serve(t, ServerOptions{Metrics: telemetry.Handler(), More: map[string]http.Handler{
		"GET /status": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }),
	}})
	status, body := s.get(t, "/metrics")
	if status != http.StatusOK || !strings.Contains(body, "\nhap_claims_total{result=\"ok\"} 1\n") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.get(t, "/status"); status != http.StatusOK || body != "page" {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := s.get(t, "/nothing"); status != http.StatusNotFound {
		t.Errorf("status is %d", status)
	}
	response, err := s.client.Post(s.url+"/readyz", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("status is %d", response.StatusCode)
	}
}

// TestStopLetsRequestsFinish stops while a request is being answered.
func TestStopLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	s := serve(t, ServerOptions{More: map[string]http.Handler{"/slow": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "done")
	})}})
	answer := make(chan string, 1)
	go func() {
		response, err := s.client.Get(s.url + "/slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answer <- string(body)
	}()
	<-arrived
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	for { // the port is closed first
		connection, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			break
		}
		connection.Close()
	}
	close(release)
	if got := <-answer; got != "done" {
		t.Errorf("the answer is %q", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestStopDoesNotWaitForEver: a request that hangs is cut off after the grace.
func TestStopDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	s := serve(t, ServerOptions{Grace: time.Millisecond, More: map[string]http.Handler{"/hangs": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})}})
	cut := make(chan error, 1)
	go func() {
		response, err := s.client.Get(s.url + "/hangs")
		if err == nil {
			response.Body.Close()
		}
		cut <- err
	}()
	<-arrived
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if err := <-cut; err == nil {
		t.Error("the request that hangs was answered")
	}
}

func TestAnAddressThatIsTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := Serve(context.Background(), ServerOptions{Addr: taken.Addr().String()}, nil); err == nil {
		t.Error("the address was taken twice")
	}
}
