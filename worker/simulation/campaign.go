package simulation

import (
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Report is what a run of many histories consisted of.
type Report struct {
	Histories int
	Events    []int // of each history, in order
	Steps     int
	Simulated time.Duration
	Took      time.Duration
	Befell    map[Kind]int
	Failed    []Result // by seed
}

// Campaign plays n histories from a seed on, several at a time.
func Campaign(t *testing.T, seed uint64, n int, kinds []Kind) Report {
	t.Helper()
	r := Report{Histories: n, Befell: map[Kind]int{}}
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
					got := Play(t, Draw(seed+uint64(at), kinds), "")
					mu.Lock()
					r.add(got)
					mu.Unlock()
				}
			})
		}
	})
	r.Took = time.Since(began)
	slices.Sort(r.Events)
	slices.SortFunc(r.Failed, func(a, b Result) int { return int(int64(a.Plan.Seed) - int64(b.Plan.Seed)) })
	return r
}

func (r *Report) add(got Result) {
	r.Events = append(r.Events, got.Events)
	r.Steps += got.Steps
	r.Simulated += time.Duration(got.Moments) * moment
	for kind, n := range got.Befell {
		r.Befell[kind] += n
	}
	if got.Violation != "" {
		r.Failed = append(r.Failed, got)
	}
}

// Missing are the kinds that never came.
func (r Report) Missing(kinds []Kind) (missing []Kind) {
	for _, k := range slices.Concat(requests, kinds) {
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
