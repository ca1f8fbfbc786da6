package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// TestWaitingAges: ages are computed at the scrape, and a look that is too old is absent.
func TestWaitingAges(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{})
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	m := telemetry.Metrics
	m.now = func() time.Time { return now }
	o := m.Observer()
	shows := func(want string) {
		t.Helper()
		if got := scrape(t, telemetry, "hap_waiting_requests{", "hap_waiting_oldest_seconds{"); got != want {
			t.Errorf("at %s:\n%swant:\n%s", now.Format(time.TimeOnly), got, want)
		}
	}
	shows("")
	o.Waiting([]observe.Waiting{
		{Pool: "aws", Reason: "pool-empty", Since: now.Add(-time.Minute)},
		{Pool: "aws", Reason: "pool-empty", Since: now.Add(-5 * time.Minute)},
		{Pool: "aws", Reason: "unavailable", Since: now.Add(-time.Second)},
		{Pool: "gcp", Reason: "network-full", Since: now.Add(time.Second)}, // by a clock ahead of ours
	})
	counts := `hap_waiting_requests{pool="aws",reason="pool-empty"} 2
hap_waiting_requests{pool="aws",reason="unavailable"} 1
hap_waiting_requests{pool="gcp",reason="network-full"} 1
`
	shows("hap_waiting_oldest_seconds{pool=\"aws\"} 300\nhap_waiting_oldest_seconds{pool=\"gcp\"} 0\n" + counts)
	now = now.Add(30 * time.Second)
	shows("hap_waiting_oldest_seconds{pool=\"aws\"} 330\nhap_waiting_oldest_seconds{pool=\"gcp\"} 29\n" + counts)
	now = now.Add(31 * time.Second)
	shows("")
	o.Waiting(nil)
	shows("")
}

// TestWaitingPoolsAreBounded: pools that a publisher invents do not hide the pool with accounts, nor do they
// create series without limit.
func TestWaitingPoolsAreBounded(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{})
	m := telemetry.Metrics
	now := m.now()
	m.Look(now, slices.Values([]BindingFacts{{Binding: engine.Binding{Name: "b", HyperscalerType: "real"}}}))
	waits := []observe.Waiting{{Pool: "real", Reason: "pool-empty", Since: now}}
	for i := range 3 * maxWaitingPools {
		pool := fmt.Sprintf("made-up-%03d", i)
		waits = append(waits, observe.Waiting{Pool: pool, Reason: "pool-empty", Since: now}, observe.Waiting{Pool: pool, Reason: "pool-empty", Since: now})
	}
	o := m.Observer()
	o.Waiting(waits)
	got := scrape(t, telemetry, "hap_waiting_requests{")
	if n := strings.Count(got, "\n"); n != maxWaitingPools+1 {
		t.Errorf("%d series, want %d and one for the others", n, maxWaitingPools)
	}
	for _, want := range []string{`{pool="real",reason="pool-empty"} 1`, `{pool="other",reason="pool-empty"} 802`} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s", want)
		}
	}
}
