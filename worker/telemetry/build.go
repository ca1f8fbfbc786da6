package telemetry

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/hap-worker/hap-worker/worker/build"
)

// observeBuild creates the gauge of the program's build, to tell workers apart by it. Unknown labels are
// "unknown": Prometheus drops empty labels.
func observeBuild(b *builder, of build.Info) {
	labels := with("version", known(of.Version), "revision", known(of.Revision), "goversion", known(of.Go))
	_, err := b.meter.Int64ObservableGauge("hap_build_info",
		metric.WithDescription("1 always; what the worker was built from, by version, revision (the commit) and goversion."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(1, labels)
			return nil
		}))
	b.errs = append(b.errs, err)
}

func known(text string) string { return cmp.Or(text, "unknown") }
