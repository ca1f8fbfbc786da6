package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// waitingKnown is how old a look into the waiting room may be. After it nothing is
// known: whoever waited then may have been served by another worker.
const waitingKnown = time.Minute

// waitingRoom is what the last look into it found.
type waitingRoom struct {
	at     time.Time
	counts map[[2]string]int64 // by pool and reason
	oldest map[string]time.Time
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
