package telemetry

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

func TestExhaustion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		free, claims int
		over         time.Duration
		want         float64
	}{
		{free: 0, claims: 0, over: time.Hour, want: 0},
		{free: 0, claims: 7, over: time.Hour, want: 0},
		{free: 12, claims: 0, over: time.Hour, want: math.Inf(1)},
		{free: 12, claims: 6, over: time.Hour, want: 2 * 3600},
		{free: 1, claims: 4, over: time.Hour, want: 900},
		{free: 5, claims: 1, over: 10 * time.Minute, want: 3000},
	} {
		if got := exhaustion(c.free, c.claims, c.over); got != c.want {
			t.Errorf("%d free, %d claimed in %s: %g s, want %g", c.free, c.claims, c.over, got, c.want)
		}
	}
}

// yard is a pool of bindings whose labels change from look to look.
type yard struct {
	t        *testing.T
	f        forecast
	now      time.Time
	bindings []BindingFacts
}

func newYard(t *testing.T, n int) *yard {
	t.Helper()
	y := &yard{t: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	for i := range n {
		y.bindings = append(y.bindings, BindingFacts{Binding: engine.Binding{Name: fmt.Sprintf("aws-%d", i), HyperscalerType: "aws"}, Record: &account.Record{}})
	}
	return y
}

func (y *yard) claim(i int) {
	b := &y.bindings[i].Binding
	b.Tenant, b.Generation = "ga-1", b.Generation+1
}

func (y *yard) free(i int) { y.bindings[i].Binding.Tenant = "" }

// lasts looks after some time, and expects the pool to last so many seconds.
func (y *yard) lasts(after time.Duration, want float64) {
	y.t.Helper()
	y.now = y.now.Add(after)
	y.f.look(y.now, slices.Values(y.bindings))
	got := map[string]float64{}
	y.f.each(func(pool string, seconds float64) { got[pool] = seconds })
	if len(got) != 1 || got["aws"] != want {
		y.t.Errorf("at %s the forecast is %v, want aws to last %g s", y.now.Format(time.TimeOnly), got, want)
	}
}

// TestForecast follows a pool over two hours.
func TestForecast(t *testing.T) {
	t.Parallel()
	y := newYard(t, 10)
	y.claim(0)
	y.lasts(0, math.Inf(1)) // what was claimed before the first look is no rate
	y.claim(1)
	y.lasts(time.Minute, 8*600) // one in ten minutes, though only one has passed
	y.claim(2)
	y.claim(3)
	y.lasts(29*time.Minute, 6.0/3*1800) // three in half an hour
	y.claim(4)
	y.lasts(30*time.Minute+30*time.Second, 5.0/4*3600) // the window is full: four in the last hour
	y.lasts(time.Minute, 5.0/3*3600)                   // the first has left it
	y.free(4)
	y.lasts(time.Minute, 6.0/3*3600) // back in the pool; that it was claimed stays so
	y.claim(4)
	y.lasts(0, 5.0/4*3600)
	y.free(4)
	y.claim(4) // between two looks
	y.lasts(0, 5.0/5*3600)
	for i := 5; i < 10; i++ {
		y.claim(i)
	}
	y.lasts(time.Minute, 0)
	y.free(9)
	y.lasts(2*time.Hour, math.Inf(1))
}

// TestForecastLeavesOut accounts that cannot be claimed: shared pools, and bindings that are cordoned,
// internal or dirty.
func TestForecastLeavesOut(t *testing.T) {
	t.Parallel()
	y := newYard(t, 5)
	y.lasts(0, math.Inf(1))
	y.claim(0)
	y.bindings[1].Binding.Cordoned = true
	y.bindings[2].Binding.Internal = true
	y.bindings[3].Binding.Dirty = true
	y.bindings = append(y.bindings,
		BindingFacts{Binding: engine.Binding{Name: "os-1", HyperscalerType: "openstack", Shared: true}, Record: &account.Record{}},
		BindingFacts{Binding: engine.Binding{Name: "aws-new", HyperscalerType: "aws", Tenant: "ga-2", Generation: 3}, Record: &account.Record{}}) // claimed elsewhere before
	y.lasts(time.Hour, 3600)
}

func TestForecastIsExported(t *testing.T) {
	t.Parallel()
	telemetry := start(t, Options{})
	y := newYard(t, 3)
	telemetry.Metrics.Look(y.now, slices.Values(y.bindings))
	const name = "hap_pool_exhaustion_seconds{"
	if got := scrape(t, telemetry, name); got != "" {
		t.Errorf("while the state of the pools is not known there is %q", got)
	}
	telemetry.Metrics.Observe(func(context.Context) (Snapshot, bool) { return Snapshot{Bindings: slices.Values(y.bindings)}, true })
	if got, want := scrape(t, telemetry, name), "hap_pool_exhaustion_seconds{pool=\"aws\"} +Inf\n"; got != want {
		t.Errorf("scraped %q, want %q", got, want)
	}
	y.claim(0)
	telemetry.Metrics.Look(y.now.Add(time.Hour), slices.Values(y.bindings))
	if got, want := strings.TrimSpace(scrape(t, telemetry, name)), `hap_pool_exhaustion_seconds{pool="aws"} 7200`; got != want {
		t.Errorf("scraped %q, want %q", got, want)
	}
}
