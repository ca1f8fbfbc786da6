package gardenertest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
)

// impatient are the options of tests that wait for a time-out.
var impatient = gardener.Options{Budget: 5 * time.Second, Timeout: 1500 * time.Millisecond}

// testWriteFaults: a write is repeated only if it certainly was not executed. Any other failure is
// returned after one attempt, whether or not the server has committed.
func testWriteFaults(t *testing.T, b *bench) {
	const anyNumber = -1
	cases := []struct {
		fault   fault
		times   int // how often the fault happens; anyNumber: for ever
		want    error
		patches int
	}{
		{fault{"too many requests", true, status(http.StatusTooManyRequests, "")}, 2, nil, 3},
		{fault{"too many requests, come again", true, status(http.StatusTooManyRequests, "1")}, 1, nil, 2},
		{fault{"too many requests for ever", true, status(http.StatusTooManyRequests, "")}, anyNumber, engine.ErrUnavailable, anyNumber},
		{fault{"too many requests beyond the budget", true, status(http.StatusTooManyRequests, "60")}, 1, engine.ErrUnavailable, 1},
		{fault{"no connection", true, unconnected}, 2, nil, 3},
		{fault{"refused without a look", true, unlooked}, 2, nil, 3},
		{fault{"refused without a look, for ever", true, unlooked}, anyNumber, engine.ErrUnavailable, anyNumber},
		{fault{"forbidden", true, status(http.StatusForbidden, "")}, 1, engine.ErrUnavailable, 1},
		{fault{"no such kind", true, status(http.StatusNotFound, "")}, 1, engine.ErrUnavailable, 1},
		{fault{"internal error, not committed", true, status(http.StatusInternalServerError, "")}, 1, engine.ErrUnknownResult, 1},
		{fault{"unavailable with Retry-After, not committed", true, status(http.StatusServiceUnavailable, "1")}, 1, engine.ErrUnknownResult, 1},
		{fault{"connection lost, not committed", true, lost}, 1, engine.ErrUnknownResult, 1},
		{fault{"no answer, not committed", true, silent}, 1, engine.ErrUnknownResult, 1},
		{fault{"internal error, committed", false, status(http.StatusInternalServerError, "")}, 1, engine.ErrUnknownResult, 1},
		{fault{"unavailable with Retry-After, committed", false, status(http.StatusServiceUnavailable, "1")}, 1, engine.ErrUnknownResult, 1},
		{fault{"gateway's time-out, committed", false, status(http.StatusGatewayTimeout, "")}, 1, engine.ErrUnknownResult, 1},
		{fault{"connection lost, committed", false, lost}, 1, engine.ErrUnknownResult, 1},
		{fault{"no answer, committed", false, silent}, 1, engine.ErrUnknownResult, 1},
		{fault{"answer broken off, committed", false, garbled}, 1, engine.ErrUnknownResult, 1},
	}
	for n, c := range cases {
		t.Run(c.fault.name, func(t *testing.T) {
			t.Parallel()
			name := b.account(t, n, nil)
			wire, broken := &record{}, &faults{verb: "patch", forever: c.times == anyNumber}
			client := b.client(t, impatient, broken.wrap, wire.wrap)
			seen := get(t, client, name)
			broken.set(slices.Repeat([]fault{c.fault}, max(c.times, 1))...)
			_, err := client.Claim(t.Context(), seen, engine.Mark{Tenant: "ga-1", Generation: 1})
			if !errors.Is(err, c.want) || errors.Is(err, engine.ErrRefused) { // the binding is the reason for none of these answers
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := wire.count("patch"); got != c.patches && c.patches != anyNumber {
				t.Errorf("%d patches, want %d", got, c.patches)
			}
			committed := get(t, client, name).Tenant == "ga-1"
			if want := !c.fault.before || c.want == nil; committed != want {
				t.Errorf("committed: %t, want %t", committed, want)
			}
		})
	}
}

// testRetryAfter: a repeat waits as long as the server asks.
func testRetryAfter(t *testing.T, b *bench) {
	name := b.account(t, 1, nil)
	broken := &faults{verb: "patch"}
	client := b.client(t, impatient, broken.wrap)
	seen := get(t, client, name)
	broken.set(fault{"", true, status(http.StatusTooManyRequests, "1")}, fault{"", true, busy("1")})
	start := time.Now()
	if _, err := client.Claim(t.Context(), seen, engine.Mark{Tenant: "ga-1"}); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took < 2*time.Second {
		t.Errorf("came again twice in %v", took)
	}
}

// testCallerGone: if the caller's context ends before the answer, the result of the write is unknown.
func testCallerGone(t *testing.T, b *bench) {
	name := b.account(t, 1, nil)
	broken := &faults{verb: "patch"}
	client := b.client(t, gardener.Options{}, broken.wrap)
	seen := get(t, client, name)
	broken.set(fault{"", false, silent})
	_, err := client.Claim(shortly(t), seen, engine.Mark{Tenant: "ga-1"})
	if !errors.Is(err, engine.ErrUnknownResult) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// testReadFaults: a read is repeated after each of these failures, within the budget.
func testReadFaults(t *testing.T, b *bench) {
	for n, f := range []fault{
		{"too many requests", true, status(http.StatusTooManyRequests, "")},
		{"internal error", true, status(http.StatusInternalServerError, "")},
		{"unavailable", true, status(http.StatusServiceUnavailable, "1")},
		{"connection lost", false, lost},
		{"no connection", true, unconnected},
		{"no answer", true, silent},
		{"answer broken off", false, garbled},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			name := b.account(t, n, nil)
			broken := &faults{verb: "get"}
			client := b.client(t, impatient, broken.wrap)
			broken.set(f, f)
			if got := get(t, client, name); got.Name != name {
				t.Errorf("%+v", got)
			}
			broken.forever = true
			broken.set(f)
			if _, err := client.Get(t.Context(), name); !errors.Is(err, engine.ErrUnavailable) {
				t.Errorf("for ever: %v", err)
			}
		})
	}
}
