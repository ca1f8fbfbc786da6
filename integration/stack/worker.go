package stack

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Worker is a hap-worker process.
type Worker struct {
	number  int      // from 1
	command []string // the command, without the configuration
	config  string
	port    int // of its telemetry
	log     io.Writer
	talk    io.Writer
	env     []string // takes precedence over the configuration file
	process *process
}

// URL is the base URL of /metrics, /healthz and /readyz. Restarts do not change it.
func (w *Worker) URL() string {
	return "http://" + net.JoinHostPort(loopback, strconv.Itoa(w.port))
}

// Start starts a stopped worker and returns when it is ready.
func (w *Worker) Start(ctx context.Context) error {
	var err error
	w.process, err = startProcess(command{
		name:   fmt.Sprintf("hap-worker %d", w.number),
		path:   w.command[0],
		args:   append(slices.Clone(w.command[1:]), "--config", w.config),
		env:    w.environment(),
		stdout: w.log,
		stderr: w.log,
		talk:   w.talk,
		grace:  workerGrace,
	})
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	err = w.process.await(ctx, func(ctx context.Context) error { return answersOK(ctx, client, w.URL()+"/readyz") })
	if err != nil {
		w.process.kill()
	}
	return err
}

// environment is this process's environment without the variables that would override the configuration file:
// a HAP_NATS_URL of the developer's shell is meant for hapctl.
func (w *Worker) environment() []string {
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "HAP_") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			env = append(env, variable)
		}
	}
	env = append(env, "HAP_TELEMETRY_LISTEN="+net.JoinHostPort(loopback, strconv.Itoa(w.port)))
	return append(env, w.env...)
}

// AddWorker starts another worker, and returns when it is ready; Stop stops it, too. It logs to log. The
// variables of env, such as HAP_REDIS_URL=…, override the stack's configuration.
func (s *Stack) AddWorker(ctx context.Context, log io.Writer, env ...string) (*Worker, error) {
	if s.worker == nil {
		binary, err := Build(ctx, "hap-worker", os.Stderr)
		if err != nil {
			return nil, err
		}
		s.worker = []string{binary}
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	w := &Worker{number: len(s.Workers) + 1, command: s.worker, config: s.Config, port: port, log: log, talk: os.Stderr, env: env}
	s.Workers = append(s.Workers, w)
	return w, w.Start(ctx)
}

// Stop makes the worker drain and end.
func (w *Worker) Stop() error { return w.process.stop() }

// Kill ends the worker at once, like a crash.
func (w *Worker) Kill() { w.process.kill() }

// PID is the id of the present or last process.
func (w *Worker) PID() int { return w.process.cmd.Process.Pid }

// Signal sends a signal to the worker: SIGSTOP pauses it, SIGCONT resumes it.
func (w *Worker) Signal(sig os.Signal) error { return w.process.cmd.Process.Signal(sig) }

func answersOK(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return nil
}
