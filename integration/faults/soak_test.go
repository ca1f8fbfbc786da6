package faults

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// TestTrends: growth is detected; a rise in the beginning, jitter, and what grows by design are ignored.
func TestTrends(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	steady := func(n int) Reading {
		jitter := func(of float64) float64 { return of * (0.95 + random.Float64()/10) }
		return Reading{
			At: time.Duration(n) * time.Minute, Memory: jitter(200 << 20), Goroutines: jitter(300), Descriptors: jitter(90), Keys: jitter(120),
		}
	}
	for name, c := range map[string]struct {
		change func(r *Reading, n int)
		grows  []string
	}{
		"steady":                 {func(*Reading, int) {}, nil},
		"rises in the beginning": {func(r *Reading, n int) { r.Memory *= min(1, 0.2+float64(n)/20) }, nil},
		"a leak of memory":       {func(r *Reading, n int) { r.Memory += float64(n) * (5 << 20) }, []string{"memory of the workers, MiB"}},
		"a goroutine for each event, with its connection": {func(r *Reading, n int) {
			r.Goroutines += 10 * float64(n)
			r.Descriptors += 3 * float64(n)
		}, []string{"goroutines", "open files"}},
		"a key for each runtime": {func(r *Reading, n int) { r.Keys += 20 * float64(n) }, []string{"Redis keys"}},
		"what grows by design": {func(r *Reading, n int) {
			r.RedisMemory, r.Decisions = float64(n)*(5<<20), float64(n)
			r.Bytes = map[string]uint64{events.StreamReplies: uint64(n) << 24}
		}, nil},
		"shrinks": {func(r *Reading, n int) { r.Memory -= float64(n) * (2 << 20) }, nil},
	} {
		var readings []Reading
		for n := range 60 {
			r := steady(n)
			c.change(&r, n)
			readings = append(readings, r)
		}
		var grows []string
		for _, trend := range trends(readings) {
			if trend.Grows {
				grows = append(grows, trend.Name)
			}
		}
		if !slices.Equal(grows, c.grows) {
			t.Errorf("%s: %q grow, want %q", name, grows, c.grows)
		}
	}
	if got := trends(make([]Reading, 5)); got != nil {
		t.Errorf("five readings say %v", got)
	}
}

// TestSoakPlot: the plot has a panel for each figure, also where there are too few readings for a trend.
func TestSoakPlot(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 12} {
		r := &Report{}
		for i := range n {
			r.Readings = append(r.Readings, Reading{At: time.Duration(i) * time.Minute, Memory: 200 << 20, Goroutines: 300, Decisions: 1000})
		}
		r.Trends = trends(r.Readings)
		path := filepath.Join(t.TempDir(), "soak.svg")
		if err := r.Plot(path); err != nil {
			t.Fatal(err)
		}
		svg, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range figures() {
			if !strings.Contains(string(svg), f.name) {
				t.Errorf("%d readings: no panel of %s", n, f.name)
			}
		}
		if dashed := strings.Contains(string(svg), "stroke-dasharray:5"); dashed != (n > 5) {
			t.Errorf("%d readings: a trend is drawn: %v", n, dashed)
		}
	}
}

// TestSoakPlan: the faults of a soak end no worker, and are far apart.
func TestSoakPlan(t *testing.T) {
	t.Parallel()
	plan := soakPlan(7, time.Hour, 3)
	for i, a := range plan {
		if !slices.Contains(soakKinds(), a.Kind) || i > 0 && a.At-plan[i-1].At < 10*time.Second {
			t.Errorf("action %d is %s", i, a)
		}
	}
	for _, kind := range soakKinds() {
		if !slices.ContainsFunc(plan, func(a Action) bool { return a.Kind == kind }) {
			t.Errorf("%q never comes in an hour", kind)
		}
	}
}
