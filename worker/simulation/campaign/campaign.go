// Package campaign plays many histories, reports what they consisted of, and shortens those that fail. It
// also lists the mutants, and the histories that fail or failed once, which tests play.
package campaign

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/worker/simulation"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

// Campaign configures a run of many histories.
type Campaign struct {
	Seed  uint64 // of the first history; the others follow it
	N     int    // how many
	Kinds []plans.Kind

	Dir  string          // each failing history is written here, shortened and whole; "" for nowhere
	Stop <-chan struct{} // once closed, no further history begins
	Tell func(Report)    // called with the progress, at most every tellEvery; may be nil
}

// Report is the outcome of a campaign.
type Report struct {
	Of        Campaign
	Histories int   // played; after the end of the campaign, their seeds follow Seed without a gap
	Events    []int // of each history; sorted at the end of the campaign
	Steps     int
	Simulated time.Duration
	Took      time.Duration
	Befell    map[plans.Kind]int
	Called    map[string]int
	Failed    []simulation.Result // by seed at the end of the campaign
}

// tellEvery is the shortest interval between two calls of Tell.
const tellEvery = 10 * time.Second

// Run plays the histories, several at a time.
func (c Campaign) Run(t *testing.T) Report {
	t.Helper()
	r := Report{Of: c, Befell: map[plans.Kind]int{}, Called: map[string]int{}}
	began, told := time.Now(), time.Now()
	var mu sync.Mutex
	begun := 0
	next := func() (seed uint64, more bool) {
		mu.Lock()
		defer mu.Unlock()
		if begun >= c.N || c.stopped() {
			return 0, false
		}
		begun++
		return c.Seed + uint64(begun) - 1, true
	}
	note := func(got simulation.Result) {
		mu.Lock()
		defer mu.Unlock()
		r.add(got)
		r.Took = time.Since(began)
		if c.Tell != nil && time.Since(told) > tellEvery {
			told = time.Now()
			c.Tell(r)
		}
	}
	t.Run("histories", func(t *testing.T) {
		for range goruntime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for seed, more := next(); more; seed, more = next() {
					note(simulation.Play(t, plans.Draw(seed, c.Kinds), ""))
				}
			})
		}
	})
	r.Took = time.Since(began)
	slices.Sort(r.Events)
	slices.SortFunc(r.Failed, func(a, b simulation.Result) int { return int(int64(a.Plan.Seed) - int64(b.Plan.Seed)) })
	if c.Dir != "" {
		for _, failed := range r.Failed {
			c.keep(t, failed)
		}
	}
	return r
}

func (c Campaign) stopped() bool {
	select {
	case <-c.Stop:
		return true
	default:
		return false
	}
}

// keep writes a failing history to a file: first the brief form of the shortened history, then all of it.
func (c Campaign) keep(t *testing.T, failed simulation.Result) {
	t.Helper()
	if err := os.MkdirAll(c.Dir, 0o750); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.Dir, fmt.Sprintf("seed-%d.txt", failed.Plan.Seed))
	text := Shorten(t, failed, "", 200).Brief() + "\n\n== the whole history\n\n" + failed.Prose()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *Report) add(got simulation.Result) {
	r.Histories++
	r.Events = append(r.Events, got.Events)
	r.Steps += got.Steps
	r.Simulated += got.Simulated()
	for kind, n := range got.Befell {
		r.Befell[kind] += n
	}
	for op, n := range got.Called {
		r.Called[op] += n
	}
	if got.Violation != "" {
		r.Failed = append(r.Failed, got)
	}
}

// Missing returns the requests, those of the kinds, and the calls that never occurred.
func (r Report) Missing(kinds []plans.Kind) (missing []string) {
	for _, k := range slices.Concat(plans.Requests, kinds) {
		if r.Befell[k] == 0 {
			missing = append(missing, string(k))
		}
	}
	for _, op := range slices.Sorted(maps.Keys(plans.Calls)) {
		if r.Called[op] == 0 {
			missing = append(missing, op)
		}
	}
	return missing
}

// Progress describes the progress in a line, and each failure in another.
func (r Report) Progress() string {
	rate := float64(r.Histories) / r.Took.Seconds()
	left := time.Duration(float64(r.Of.N-r.Histories) / rate * float64(time.Second))
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %d histories, %.0f a second, %s left, %d failed", r.Histories, r.Of.N, rate, left.Round(time.Second), len(r.Failed))
	for _, failed := range r.Failed {
		fmt.Fprintf(&text, "\n  seed %d: %s", failed.Plan.Seed, failed.Violation)
	}
	return text.String()
}

// Rest says how to resume a stopped campaign, "" if it played all histories.
func (r Report) Rest() string {
	if r.Histories >= r.Of.N {
		return ""
	}
	return fmt.Sprintf("stopped; go on with N=%d SEED=%d", r.Of.N-r.Histories, r.Of.Seed+uint64(r.Histories))
}

func (r Report) String() string {
	var text strings.Builder
	median := 0
	if len(r.Events) > 0 {
		median = r.Events[len(r.Events)/2]
	}
	fmt.Fprintf(&text, "%d histories from seed %d in %s: %.0f a second, %d events in the median, %d steps, %s simulated, %d failed\n",
		r.Histories, r.Of.Seed, r.Took.Round(time.Second/10), float64(r.Histories)/r.Took.Seconds(),
		median, r.Steps, r.Simulated.Round(time.Minute), len(r.Failed))
	for _, kind := range slices.Sorted(maps.Keys(r.Befell)) {
		fmt.Fprintf(&text, "%9d  %s\n", r.Befell[kind], kind)
	}
	return text.String()
}
