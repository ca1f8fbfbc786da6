package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/events"
)

// soakKinds are the faults of a soak. None of them ends a worker process: a leak has to remain visible until
// the end.
func soakKinds() []Kind {
	return []Kind{
		RedisLost, RedisKilled, RedisFlaky, RedisFailedOver, NATSRestarted, KubeFlaky, KubeDown, WatchCut,
		ConsumerDeleted, Junk, DeadPurged, ConfigChanged, BindingMoved, BindingDeleted,
	}
}

// Reading is one measurement of all processes in a soak.
type Reading struct {
	At time.Duration // since the beginning of the load
	// Of all workers together: resident memory in bytes, goroutines, and open file descriptors.
	Memory, Goroutines, Descriptors float64
	Keys                            float64 // of Redis
	Messages, Bytes                 uint64  // of all streams
}

// held are the figures that must not grow. The records of a pool or bucket are fields of one key each, so no
// runtime adds a key.
var held = []struct {
	name  string
	slack float64       // growth that is ignored
	from  time.Duration // the least length of a soak that judges it
	of    func(Reading) float64
	scale float64 // divides the figure for printing
}{
	{"memory of the workers, MiB", 64 << 20, 30 * time.Minute, func(r Reading) float64 { return r.Memory }, 1 << 20},
	{"goroutines", 60, 0, func(r Reading) float64 { return r.Goroutines }, 1},
	{"open files", 30, 0, func(r Reading) float64 { return r.Descriptors }, 1},
	{"Redis keys", 30, 0, func(r Reading) float64 { return r.Keys }, 1},
}

// mostGrowth is the permitted growth from the first half to the second, as a share of the first.
const mostGrowth = 0.15

// Trend compares the floors of a figure in both halves: the value that a tenth of the readings is below. The
// first third of the load is left out: everything is used for the first time then. A leak raises the floor; a
// rebuild or a wave of requests takes memory for some minutes only.
type Trend struct {
	Name        string
	First, Then float64
	Grows       bool
}

// trends returns nil for fewer than six readings, which show no trend.
func trends(readings []Reading) []Trend {
	if len(readings) < 6 {
		return nil
	}
	late, last := readings[len(readings)/3:], readings[len(readings)-1]
	var all []Trend
	for _, h := range held {
		floor := func(of []Reading) float64 {
			values := make([]float64, len(of))
			for i, r := range of {
				values[i] = h.of(r)
			}
			slices.Sort(values)
			return values[len(values)/10]
		}
		first, then := floor(late[:len(late)/2]), floor(late[len(late)/2:])
		growth := then - first
		all = append(all, Trend{h.name, first / h.scale, then / h.scale, last.At >= h.from && growth > h.slack && growth > mostGrowth*first})
	}
	return all
}

// sample reads the processes periodically until ctx ends. A reading that fails is left out: faults go on.
func (r *run) sample(ctx context.Context) {
	every := min(max(r.o.Duration/60, 2*time.Second), 30*time.Second)
	for begin := time.Now(); pause(ctx, every); {
		reading, err := r.read(ctx)
		if err != nil {
			r.count("readings of a soak that failed")
			continue
		}
		reading.At = time.Since(begin)
		r.mu.Lock()
		r.readings = append(r.readings, reading)
		r.mu.Unlock()
	}
}

func (r *run) read(ctx context.Context) (reading Reading, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, w := range r.stack.Workers {
		if err := reading.addWorker(ctx, w.URL()); err != nil {
			return reading, err
		}
	}
	options, err := redis.ParseURL(r.looker.URL())
	if err != nil {
		return reading, err
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	keys, err := client.DBSize(ctx).Result()
	if err != nil {
		return reading, err
	}
	reading.Keys = float64(keys)
	for _, name := range []string{events.StreamEvents, events.StreamReplies, events.StreamWaiting, events.StreamDead} {
		stream, err := r.js.Stream(ctx, name)
		if err != nil {
			return reading, err
		}
		state := stream.CachedInfo().State
		reading.Messages, reading.Bytes = reading.Messages+state.Msgs, reading.Bytes+state.Bytes
	}
	return reading, nil
}

// addWorker adds a worker's process metrics.
func (r *Reading) addWorker(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return err
	}
	for name, sum := range map[string]*float64{
		"process_resident_memory_bytes": &r.Memory, "go_goroutines": &r.Goroutines, "process_open_fds": &r.Descriptors,
	} {
		family := families[name]
		if family == nil || len(family.GetMetric()) != 1 {
			return fmt.Errorf("%s has no %s", url, name)
		}
		*sum += family.GetMetric()[0].GetGauge().GetValue()
	}
	return nil
}

// soaked adds the readings to a report, and each growth to its violations.
func (r *run) soaked(report *Report) {
	if !r.o.Soak {
		return
	}
	report.Readings = r.readings
	report.Trends = trends(r.readings)
	if report.Trends == nil {
		report.Violations = append(report.Violations, fmt.Sprintf("soak: %d readings say nothing of a trend", len(r.readings)))
	}
	for _, t := range report.Trends {
		if t.Grows {
			report.Violations = append(report.Violations, fmt.Sprintf("soak: %s grow from %.1f to %.1f", t.Name, t.First, t.Then))
		}
	}
}

// soak formats about ten readings as a table, and the trends.
func (r *Report) soak(b *strings.Builder) {
	if len(r.Readings) == 0 {
		return
	}
	fmt.Fprintf(b, "%8s %10s %11s %7s %7s %9s %12s\n", "after", "memory MiB", "goroutines", "files", "keys", "messages", "streams MiB")
	step := max(1, len(r.Readings)/10)
	for n := 0; n < len(r.Readings); n += step {
		x := r.Readings[n]
		fmt.Fprintf(b, "%8s %10.0f %11.0f %7.0f %7.0f %9d %12.1f\n", x.At.Round(time.Second), x.Memory/(1<<20), x.Goroutines, x.Descriptors, x.Keys, x.Messages, float64(x.Bytes)/(1<<20))
	}
	for _, t := range r.Trends {
		fmt.Fprintf(b, "%-28s %8.1f, then %8.1f\n", t.Name, t.First, t.Then)
	}
}
