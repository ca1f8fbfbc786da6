package integration_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// TestStopsUnderLoad sends SIGTERM to a worker that has its hands full: what it has
// begun it finishes, what it has not begun another one gets at once, and it
// ends in order.
func TestStopsUnderLoad(t *testing.T) {
	t.Parallel()
	const runtimes, tenants = 1500, 30
	l := newLandscape(t, oneAccountRules, accounts("aws", tenants))
	for n := range runtimes {
		l.publish(ask(fmt.Sprintf("rt-%04d", n), fmt.Sprintf("ga-%02d", n%tenants)), "")
	}
	l.flush()
	binary, err := stack.Build(t.Context(), "hap-worker", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var log safeBuffer
	first := exec.Command(binary, "--config", l.stack.Config)
	first.Env = []string{"HAP_TELEMETRY_LISTEN=127.0.0.1:0", "HOME=" + t.TempDir()}
	first.Stderr = &log
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
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the worker ended with %v:\n%s", err, log.String())
		}
	case <-l.ctx.Done():
		_ = first.Process.Kill()
		t.Fatal("the worker does not end")
	}
	left := l.unsettled()
	if left == 0 {
		t.Fatal("the worker was done before it was stopped: the test says nothing")
	}
	// Had it kept what it had not begun, that would come again after ackWait, 30 s.
	begin := time.Now()
	second := l.work(daemon.Options{})
	l.awaitSettled()
	if took := time.Since(begin); took > 25*time.Second {
		t.Errorf("what was left took %s", took)
	}
	if err := second.end(); err != nil {
		t.Error(err)
	}
	firsts, handedBack := worked(t, log.String())
	seconds, _ := worked(t, second.log.String())
	if handedBack != 0 {
		t.Errorf("%d events that were begun were not finished", handedBack)
	}
	if got := len(firsts) + len(seconds); got != runtimes || len(seconds) != left {
		t.Errorf("%d and %d events were handled, want %d in all and %d by the second", len(firsts), len(seconds), runtimes, left)
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
