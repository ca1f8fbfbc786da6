package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

var shadowMode = attribute.String("mode", "shadow")

// shadowed adds shadowMode to all series that are sent. A view of OpenTelemetry can only remove labels.
type shadowed struct{ sdkmetric.Exporter }

// Export changes the labels in data, which the next collection sets again.
func (s shadowed) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	for _, of := range data.ScopeMetrics {
		for _, m := range of.Metrics {
			switch series := m.Data.(type) {
			case metricdata.Sum[int64]:
				markPoints(series.DataPoints)
			case metricdata.Gauge[int64]:
				markPoints(series.DataPoints)
			case metricdata.Gauge[float64]:
				markPoints(series.DataPoints)
			case metricdata.Histogram[float64]:
				for i := range series.DataPoints {
					mark(&series.DataPoints[i].Attributes)
				}
			}
		}
	}
	return s.Exporter.Export(ctx, data)
}

func markPoints[N int64 | float64](points []metricdata.DataPoint[N]) {
	for i := range points {
		mark(&points[i].Attributes)
	}
}

func mark(labels *attribute.Set) { *labels = attribute.NewSet(append(labels.ToSlice(), shadowMode)...) }
