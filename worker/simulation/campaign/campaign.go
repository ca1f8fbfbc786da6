// Package campaign plays many histories: it reports what they consisted of, shortens one that
// fails, and has the rules that a run has to miss once they are switched off.
package campaign

import (
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/worker/simulation"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

// Report says what a run of many histories consisted of.
type Report struct {
	Histories int
	Events    []int // of each history, in order
	Steps     int
	Simulated time.Duration
	Took      time.Duration
	Befell    map[plans.Kind]int
	Failed    []simulation.Result // by seed
}

// Run plays n histories from a seed on, several at a time.
func Run(t *testing.T, seed uint64, n int, kinds []plans.Kind) Report {
	t.Helper()
	r := Report{Histories: n, Befell: map[plans.Kind]int{}}
	began := time.Now()
	var mu sync.Mutex
	next := 0
	t.Run("histories", func(t *testing.T) {
		for range goruntime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for {
					mu.Lock()
					at := next
					next++
					mu.Unlock()
					if at >= n {
						return
					}
					got := simulation.Play(t, plans.Draw(seed+uint64(at), kinds), "")
					mu.Lock()
					r.add(got)
					mu.Unlock()
				}
			})
		}
	})
	r.Took = time.Since(began)
	slices.Sort(r.Events)
	slices.SortFunc(r.Failed, func(a, b simulation.Result) int { return int(int64(a.Plan.Seed) - int64(b.Plan.Seed)) })
	return r
}

func (r *Report) add(got simulation.Result) {
	r.Events = append(r.Events, got.Events)
	r.Steps += got.Steps
	r.Simulated += got.Simulated()
	for kind, n := range got.Befell {
		r.Befell[kind] += n
	}
	if got.Violation != "" {
		r.Failed = append(r.Failed, got)
	}
}

// Missing are the kinds that never came.
func (r Report) Missing(kinds []plans.Kind) (missing []plans.Kind) {
	for _, k := range slices.Concat(plans.Requests, kinds) {
		if r.Befell[k] == 0 {
			missing = append(missing, k)
		}
	}
	return missing
}

func (r Report) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d histories in %s: %d events in the median, %d steps, %s simulated, %d failed\n",
		r.Histories, r.Took.Round(time.Second/10), r.Events[len(r.Events)/2], r.Steps, r.Simulated.Round(time.Minute), len(r.Failed))
	for _, kind := range slices.Sorted(maps.Keys(r.Befell)) {
		fmt.Fprintf(&text, "%9d  %s\n", r.Befell[kind], kind)
	}
	return text.String()
}
