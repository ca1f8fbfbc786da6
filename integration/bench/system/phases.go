package main

import (
	"context"
	"maps"
	"slices"

	"github.com/hap-worker/hap-worker/integration/bench/usage"
)

// phases are the parts of an event's way through a worker that its histograms tell apart.
var phases = []struct{ name, metric string }{
	{"delivered to settled", "hap_event_duration_seconds"},
	{"a call of Redis", "hap_redis_duration_seconds"},
	{"a read of the epochs in force", "hap_epoch_check_seconds"},
}

// phase is how often a part of the way was measured in a paced round, and how long it took, in milliseconds with the
// precision of the histogram's buckets.
type phase struct {
	Count float64 `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
}

// buckets are the cumulative counts of a histogram, over all its labels, by upper bound in seconds.
type buckets map[float64]float64

// histograms reads the histograms of the phases from a worker's metrics.
func histograms(ctx context.Context, url string) (map[string]buckets, error) {
	families, err := usage.Metrics(ctx, url)
	if err != nil {
		return nil, err
	}
	read := map[string]buckets{}
	for _, p := range phases {
		read[p.name] = buckets{}
		for _, m := range families[p.metric].GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				read[p.name][b.GetUpperBound()] += float64(b.GetCumulativeCount())
			}
		}
	}
	return read, nil
}

// since returns the phases from what the histograms counted between two readings.
func since(before, after map[string]buckets) map[string]phase {
	all := map[string]phase{}
	for name, counts := range after {
		between := buckets{}
		var p phase
		for bound, n := range counts {
			between[bound] = n - before[name][bound]
			p.Count = max(p.Count, between[bound])
		}
		p.P50, p.P99 = 1000*between.quantile(p.Count/2), 1000*between.quantile(p.Count*.99)
		all[name] = p
	}
	return all
}

// quantile returns the bound below which n of the values lie, in seconds, as if those of a bucket were spread evenly.
func (b buckets) quantile(n float64) float64 {
	below, lower := 0.0, 0.0
	for _, upper := range slices.Sorted(maps.Keys(b)) {
		if b[upper] >= n {
			return lower + (upper-lower)*(n-below)/max(b[upper]-below, 1)
		}
		below, lower = b[upper], upper
	}
	return lower
}
