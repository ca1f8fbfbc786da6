package telemetry

import (
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// The forecast uses the rate of claims in the last hour. A worker that has run for less than an hour
// uses the time since its start, but at least ten minutes: one claim right after the start is not a
// trend.
const (
	forecastWindow = time.Hour
	forecastLeast  = 10 * time.Minute
)

// forecast predicts when pools run out of free bindings. It compares the labels of the bindings at
// each look with those at the last look. The zero value has not looked yet.
type forecast struct {
	mu    sync.Mutex
	began time.Time
	seen  map[string]claimSeen  // by binding, at the last look
	taken map[string][]claimsAt // by pool, oldest first, within the window
	left  map[string]float64    // by pool, in seconds
}

// claimSeen distinguishes one claim of a binding from the next.
type claimSeen struct {
	tenant     string
	generation int64
}

// claimsAt is the number of claims that a look found.
type claimsAt struct {
	at time.Time
	n  int
}

// look compares the bindings with those of the last look. Shared pools have no forecast, because
// their accounts are not claimed. A pool has no forecast while the state of an account is unknown. It returns
// the names of the pools that have bindings.
func (f *forecast) look(now time.Time, bindings iter.Seq[BindingFacts]) (stocked map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.began.IsZero() {
		f.began, f.taken = now, map[string][]claimsAt{}
	}
	free, taken := map[string]int{}, map[string]int{}
	seen := make(map[string]claimSeen, len(f.seen))
	unread, stocked := map[string]bool{}, map[string]bool{}
	for b := range bindings {
		pool := b.Binding.Pool().Name()
		stocked[pool] = true
		if b.Binding.Shared {
			continue
		}
		free[pool] += 0 // also forecast a pool without free bindings
		switch b.standing() {
		case account.Free:
			free[pool]++
		case account.Unknown:
			unread[pool] = true
		}
		is := claimSeen{b.Binding.Tenant, b.Binding.Generation}
		was, known := f.seen[b.Binding.Name]
		if known && is.tenant != "" && (was.tenant == "" || is.generation > was.generation) {
			taken[pool]++
		}
		seen[b.Binding.Name] = is
	}
	f.seen, f.left = seen, make(map[string]float64, len(free))
	for pool, n := range taken {
		f.taken[pool] = append(f.taken[pool], claimsAt{now, n})
	}
	over := min(max(now.Sub(f.began), forecastLeast), forecastWindow)
	for pool, n := range free {
		if unread[pool] {
			continue
		}
		f.left[pool] = exhaustion(n, f.claims(pool, now.Add(-forecastWindow)), over)
	}
	return stocked
}

// claims returns the number of claims of a pool since a time, and forgets older claims.
func (f *forecast) claims(pool string, since time.Time) int {
	recent := slices.DeleteFunc(f.taken[pool], func(c claimsAt) bool { return !c.at.After(since) })
	f.taken[pool] = recent
	n := 0
	for _, c := range recent {
		n += c.n
	}
	return n
}

// each calls the function with each forecast of the last look.
func (f *forecast) each(visit func(pool string, seconds float64)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for pool, seconds := range f.left {
		visit(pool, seconds)
	}
}

// exhaustion returns for how many seconds the free bindings last if tenants continue to claim at the
// rate of claims in the duration over: 0 if none is free, +Inf if no binding was claimed.
func exhaustion(free, claims int, over time.Duration) float64 {
	switch {
	case free == 0:
		return 0
	case claims == 0:
		return math.Inf(1)
	default:
		return float64(free) / float64(claims) * over.Seconds()
	}
}
