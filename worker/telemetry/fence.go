package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// The results of a check of the epochs in force.
const (
	epochInForce = "in-force"
	epochOther   = "other"   // another server of Redis is or was the master
	epochUnknown = "unknown" // NATS did not answer
)

// fenceMetrics are the metrics of the fence, which checks that the epochs of decisions are in force (rule
// 15 of docs/protocol.md).
type fenceMetrics struct {
	checks  *counter[string]
	seconds metric.Float64Histogram
}

func newFenceMetrics(b *builder) fenceMetrics {
	return fenceMetrics{
		checks: newCounter(b.counter("hap_epoch_checks_total", "Decisions whose epoch was compared with the epochs in force, by result."), maxSeries, func(result string) []attribute.KeyValue {
			return []attribute.KeyValue{attribute.String("result", result)}
		}),
		seconds: b.histogram("hap_epoch_check_seconds", "Reading which epochs are in force.", redisBounds),
	}
}

// begin creates the series of the counter before the first check.
func (f fenceMetrics) begin(ctx context.Context) {
	for _, result := range []string{epochInForce, epochOther, epochUnknown} {
		f.checks.add(ctx, result, 0)
	}
}

func (f fenceMetrics) looked(ctx context.Context, l observe.Fence) {
	result := epochInForce
	switch {
	case errors.Is(l.Err, account.ErrNotInForce):
		result = epochOther
	case l.Err != nil:
		result = epochUnknown
	}
	f.checks.add(ctx, result, 1)
	f.seconds.Record(ctx, l.Duration.Seconds())
}
