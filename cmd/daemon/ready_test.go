package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// A health check that panics fails, without its stack, and the next probe runs it again. It is here since
// package telemetry has a test of all metrics, and panics are counted for the process.
func TestACheckThatPanics(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	check := telemetry.Check{Name: "redis", Run: func(context.Context) error { panic("at the disco") }}
	server, err := telemetry.Listen(ctx, telemetry.ServerOptions{Addr: "127.0.0.1:0", Ready: []telemetry.Check{check}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	for range 2 {
		var report telemetry.Report
		response, err := http.Get("http://" + server.Addr() + "/readyz") //nolint:noctx // of this process
		if err == nil {
			err = json.NewDecoder(response.Body).Decode(&report)
			_ = response.Body.Close()
		}
		if err != nil || len(report.Checks) != 1 || report.Checks[0].Error != "panic: at the disco" {
			t.Errorf("after a panic: %+v, %v", report, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestReadyNamesTheLandscape: a worker that cannot compare the landscapes yet says so; Redis, which it reaches, is not
// to blame.
func TestReadyNamesTheLandscape(t *testing.T) {
	t.Parallel()
	d := &daemon{}
	checks := d.checks()
	run := checks[slices.IndexFunc(checks, func(c telemetry.Check) bool { return c.Name == "landscape" })].Run
	d.parts.up.landscape.failed("no right to read kube-system")
	if err := run(t.Context()); err == nil || !strings.Contains(err.Error(), "not connected yet: no right to read kube-system") {
		t.Errorf("%v", err)
	}
	d.parts.up.landscape.up.Store(true)
	if err := run(t.Context()); err != nil {
		t.Error(err)
	}
}
