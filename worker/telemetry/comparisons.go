package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Comparisons counts the comparisons of a shadow. Only shadows have this metric.
type Comparisons struct{ total *counter[string] }

// Comparisons returns the counter, with a series for each result.
func (t *Telemetry) Comparisons(ctx context.Context, results ...string) (*Comparisons, error) {
	total, err := t.meters.Meter(scope).Int64Counter("hap_shadow_comparisons_total",
		metric.WithDescription("Decisions of the shadow that were compared with what the broker chose, by result."))
	if err != nil {
		return nil, err
	}
	c := &Comparisons{newCounter(total, len(results), func(result string) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("result", result)}
	})}
	for _, result := range results {
		c.total.add(ctx, result, 0)
	}
	return c, nil
}

// Compared counts a comparison with the result.
func (c *Comparisons) Compared(ctx context.Context, result string) { c.total.add(ctx, result, 1) }
