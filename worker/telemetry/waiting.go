package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// waitingKnown is the maximum age of a look into the waiting room. An older look says nothing:
// another worker may have served the requests in the meantime.
const waitingKnown = time.Minute

// waitingRoom has the result of the last look into the waiting room.
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
