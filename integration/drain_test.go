package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// The environment that turns this test binary into a worker that takes heldAfter events and
// stands with each further one, until its standard input ends: with the configuration of
// heldConfig.
const (
	heldConfig = "HAPTEST_HELD_CONFIG"
	heldAfter  = 200
)

// runHeld is the body of such a process, which ends at SIGTERM as hap-worker does. It does not
// return.
func runHeld() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	open := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(open)
	}()
	var taken atomic.Int64
	err := daemon.Run(ctx, daemon.Options{
		ConfigPath: os.Getenv(heldConfig),
		Env:        []string{"HAP_TELEMETRY_LISTEN=127.0.0.1:0"},
		Log:        os.Stderr,
		OnStep: func(s observe.Step) {
			if s == observe.StepReceived && taken.Add(1) > heldAfter {
				<-open
			}
		},
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestStopsUnderLoad sends SIGTERM to a worker that has its hands full: what it has
// begun it finishes, what it has not begun another one gets at once, and it
// ends in order. The worker is held with what it has begun until the other one has handled
// events, so it cannot be done before it is stopped. What it kept would come again after
// ackWait, and the test does not wait that long.
func TestStopsUnderLoad(t *testing.T) {
	t.Parallel()
	const runtimes, tenants = 1500, 30
	l := newLandscape(t, oneAccountRules+"worker: {ackWait: 2h, drain: 1h}\n", accounts("aws", tenants))
	for n := range runtimes {
		l.publish(ask(fmt.Sprintf("rt-%04d", n), fmt.Sprintf("ga-%02d", n%tenants)), "")
	}
	l.flush()
	var log safeBuffer
	first := exec.Command(os.Args[0])
	first.Env = append(os.Environ(), heldConfig+"="+l.stack.Config, "HOME="+t.TempDir())
	first.Stderr = &log
	gate, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	eventually(l.ctx, t, func() error {
		if left := l.unsettled(); left == runtimes {
			return fmt.Errorf("none of %d events is settled", left)
		}
		return nil
	})
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	second := l.work(daemon.Options{})
	eventually(l.ctx, t, func() error {
		if seconds, _ := worked(t, second.log.String()); len(seconds) == 0 {
			return errors.New("the first worker hands nothing back")
		}
		return nil
	})
	if err := gate.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the worker ended with %v:\n%s", err, log.String())
		}
	case <-l.ctx.Done():
		_ = first.Process.Kill()
		t.Fatal("the worker does not end")
	}
	l.awaitSettled()
	if err := second.end(); err != nil {
		t.Error(err)
	}
	firsts, handedBack := worked(t, log.String())
	seconds, _ := worked(t, second.log.String())
	if handedBack != 0 {
		t.Errorf("%d events that were begun were not finished", handedBack)
	}
	if got := len(firsts) + len(seconds); got != runtimes || len(firsts) <= heldAfter {
		t.Errorf("%d and %d events were handled, want %d in all and more than %d by the first", len(firsts), len(seconds), runtimes, heldAfter)
	}
	for _, delivery := range append(firsts, seconds...) {
		if delivery > 2 {
			t.Errorf("an event was delivered %d times", delivery)
		}
	}
	l.holds(checker.Terms{OneAccount: true})
}

// unsettled is how many events the stream has.
func (l *landscape) unsettled() int {
	l.t.Helper()
	stream, err := l.js.Stream(l.ctx, events.StreamEvents)
	if err != nil {
		l.t.Fatal(err)
	}
	return int(stream.CachedInfo().State.Msgs)
}

// worked reads a worker's log: the deliveries of the events that it settled, and
// how many it gave back.
func worked(t *testing.T, log string) (deliveries []int, again int) {
	t.Helper()
	for line := range strings.Lines(log) {
		var said struct {
			Msg   string `json:"msg"`
			Event struct {
				Delivery int `json:"delivery"`
			} `json:"event"`
		}
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch said.Msg {
		case "event":
			deliveries = append(deliveries, said.Event.Delivery)
		case "event will be redelivered":
			again++
		}
	}
	return deliveries, again
}
