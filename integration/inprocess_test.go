package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// inProcess is a worker that runs in the test's own process.
type inProcess struct {
	t     *testing.T
	url   string
	log   *safeBuffer
	stop  context.CancelFunc
	ended chan struct{}
	err   error // of the run, once ended is closed
}

// work starts a worker and returns when it is ready.
func (l *landscape) work(o daemon.Options) *inProcess {
	l.t.Helper()
	w := l.begin(o)
	eventually(l.ctx, l.t, func() error {
		select {
		case <-w.ended:
			l.t.Fatalf("the worker ended: %v", w.err)
		default:
		}
		_, err := w.readyz()
		return err
	})
	return w
}

// begin starts a worker and returns once it listens.
func (l *landscape) begin(o daemon.Options) *inProcess {
	l.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(l.t.Context()))
	w := &inProcess{t: l.t, log: &safeBuffer{}, stop: stop, ended: make(chan struct{})}
	listening := make(chan string, 1)
	o.Log, o.OnListening = w.log, func(addr string) { listening <- addr }
	if o.ConfigPath == "" {
		o.ConfigPath = l.stack.Config
	}
	o.Env = append(o.Env, "HAP_TELEMETRY_LISTEN=127.0.0.1:0")
	number := l.workers.Add(1)
	go func() {
		defer close(w.ended)
		w.err = daemon.Run(ctx, o)
	}()
	l.t.Cleanup(func() {
		w.stop()
		<-w.ended
		if l.t.Failed() {
			text := w.log.String()
			l.t.Logf("the end of the log of worker %d, which ended with %v:\n%s", number, w.err, text[max(0, len(text)-6000):])
		}
	})
	select {
	case addr := <-listening:
		w.url = "http://" + addr
	case <-w.ended:
		l.t.Fatalf("the worker ended: %v", w.err)
	case <-l.ctx.Done():
		l.t.Fatal("the worker does not listen")
	}
	return w
}

// end stops the worker and returns the error that it ended with.
func (w *inProcess) end() error {
	w.stop()
	<-w.ended
	return w.err
}

// readyz returns the names of the checks that fail; an error unless all hold.
func (w *inProcess) readyz() (failing []string, err error) {
	code, body, err := fetch(w.url + "/readyz")
	if err != nil {
		return nil, err
	}
	var report struct {
		Failing []string `json:"failing"`
	}
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return report.Failing, fmt.Errorf("%d: %s", code, body)
	}
	return nil, nil
}

// metric returns the value of a series, as /metrics writes it; "" where there is none.
func (w *inProcess) metric(series string) string {
	w.t.Helper()
	_, body, err := fetch(w.url + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fetch gets a URL over a separate connection, which leaves nothing behind.
func fetch(url string) (int, string, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// safeBuffer is a buffer that several goroutines write to.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// gate stops the first handler that comes to a step until the test lets it go.
type gate struct {
	step    observe.Step
	reached chan struct{}
	open    chan struct{}
	once    sync.Once
}

func newGate(step observe.Step) *gate {
	return &gate{step: step, reached: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) at(step observe.Step) {
	if step != g.step {
		return
	}
	g.once.Do(func() {
		close(g.reached)
		<-g.open
	})
}

// await returns when a handler stands at the gate.
func (g *gate) await(ctx context.Context, t *testing.T) {
	t.Helper()
	select {
	case <-g.reached:
	case <-ctx.Done():
		t.Fatalf("nobody came to the step %s", g.step)
	}
}
