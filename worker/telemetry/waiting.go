package telemetry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/hap-worker/hap-worker/worker/observe"
)

// waitingKnown is the maximum age of the list of waiting requests. An older list is not reported: another
// worker may have served the requests in the meantime.
const waitingKnown = time.Minute

// waitingRoom summarizes the last list of waiting requests.
type waitingRoom struct {
	at     time.Time
	counts map[[2]string]int64 // by pool and reason
	oldest map[string]time.Time
}

// maxWaitingPools limits the pools with a label of their name; the others are reported as "other". If a rule
// puts the region into its pool, publishers can create any number of pools.
const maxWaitingPools = 200

// wait replaces the list of waiting requests.
func (m *Metrics) wait(requests []observe.Waiting) {
	byPool := map[string]int{}
	for _, r := range requests {
		byPool[r.Pool]++
	}
	named := m.named(byPool)
	room := waitingRoom{at: m.now(), counts: map[[2]string]int64{}, oldest: map[string]time.Time{}}
	for _, r := range requests {
		pool := other
		if named == nil || named[r.Pool] {
			pool = r.Pool
		}
		room.counts[[2]string{pool, r.Reason}]++
		if first, known := room.oldest[pool]; !known || r.Since.Before(first) {
			room.oldest[pool] = r.Since
		}
	}
	m.waiting.Store(&room)
}

// named returns the maxWaitingPools pools that get a label of their name: pools with accounts first, then
// those with the most waiting requests. byPool counts the requests. If it has no more pools than that,
// named returns nil, which stands for every pool.
func (m *Metrics) named(byPool map[string]int) map[string]bool {
	if len(byPool) <= maxWaitingPools {
		return nil
	}
	var stocked map[string]bool
	if known := m.stocked.Load(); known != nil {
		stocked = *known
	}
	bare := func(pool string) int {
		if stocked[pool] {
			return 0
		}
		return 1
	}
	named := make(map[string]bool, maxWaitingPools)
	for _, pool := range slices.SortedFunc(maps.Keys(byPool), func(a, b string) int {
		return cmp.Or(cmp.Compare(bare(a), bare(b)), cmp.Compare(byPool[b], byPool[a]), cmp.Compare(a, b))
	})[:maxWaitingPools] {
		named[pool] = true
	}
	return named
}

func (m *Metrics) observeWaiting(b *builder) {
	requests := b.gauge("hap_waiting_requests", "Requests that wait.")
	oldest := b.seconds("hap_waiting_oldest_seconds", "For how long the oldest request of a pool waits.")
	_, err := b.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := m.now()
		room := m.waiting.Load()
		if room == nil || now.Sub(room.at) > waitingKnown {
			return nil
		}
		for key, n := range room.counts {
			o.ObserveInt64(requests, n, with("pool", key[0], "reason", key[1]))
		}
		for pool, since := range room.oldest {
			o.ObserveFloat64(oldest, max(now.Sub(since), 0).Seconds(), with("pool", pool))
		}
		return nil
	}, requests, oldest)
	b.errs = append(b.errs, err)
}
