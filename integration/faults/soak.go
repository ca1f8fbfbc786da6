package faults

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/bench/usage"
	"github.com/hap-worker/hap-worker/integration/plots"
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
	Keys, RedisMemory               float64           // of Redis; the memory in bytes
	Messages                        uint64            // of all streams
	Bytes                           map[string]uint64 // of each stream
	Decisions                       float64           // assignments a minute, since the reading before
}

// bytes is the size of all streams.
func (r Reading) bytes() (sum uint64) {
	for _, n := range r.Bytes {
		sum += n
	}
	return sum
}

// figure is a figure that a soak shows over time.
type figure struct {
	name  string
	of    func(Reading) float64
	scale float64       // divides the figure for printing
	held  bool          // must not grow
	slack float64       // growth that is ignored
	from  time.Duration // in a shorter soak, the figure may grow
}

// streams are the streams of a landscape.
func streams() []string {
	return []string{events.StreamEvents, events.StreamReplies, events.StreamWaiting, events.StreamDead}
}

// figures returns what a soak shows. Records are fields of the keys of their pool or bucket, so a runtime adds no key;
// but it adds to the memory of Redis and to the streams until its retention is over.
func figures() []figure {
	const mib = 1 << 20
	all := []figure{
		{name: "memory of the workers, MiB", of: func(r Reading) float64 { return r.Memory }, scale: mib, held: true, slack: 64 * mib, from: 30 * time.Minute},
		{name: "goroutines", of: func(r Reading) float64 { return r.Goroutines }, scale: 1, held: true, slack: 60},
		{name: "open files", of: func(r Reading) float64 { return r.Descriptors }, scale: 1, held: true, slack: 30},
		{name: "Redis keys", of: func(r Reading) float64 { return r.Keys }, scale: 1, held: true, slack: 30},
		{name: "memory of Redis, MiB", of: func(r Reading) float64 { return r.RedisMemory }, scale: mib},
		{name: "decisions a minute", of: func(r Reading) float64 { return r.Decisions }, scale: 1},
	}
	for _, name := range streams() {
		all = append(all, figure{name: "stream " + name + ", MiB", of: func(r Reading) float64 { return float64(r.Bytes[name]) }, scale: mib})
	}
	return all
}

// mostGrowth is the permitted growth from the first half to the second, as a share of the first.
const mostGrowth = 0.15

// Trend compares the floors of a figure in both halves: the value that a tenth of the readings is below. The
// first third of the load is left out: everything is used for the first time then. A leak raises the floor; a
// rebuild or a wave of requests takes memory for some minutes only.
type Trend struct {
	Name        string
	First, Then float64
	At          [2]time.Duration // the middle of each half, since the beginning of the load
	Grows       bool             // only of what must not grow
}

// trends returns nil for fewer than six readings, which show no trend.
func trends(readings []Reading) []Trend {
	if len(readings) < 6 {
		return nil
	}
	late, last := readings[len(readings)/3:], readings[len(readings)-1]
	halves := [2][]Reading{late[:len(late)/2], late[len(late)/2:]}
	var all []Trend
	for _, f := range figures() {
		first, then := f.floor(halves[0]), f.floor(halves[1])
		growth := then - first
		all = append(all, Trend{
			Name: f.name, First: first / f.scale, Then: then / f.scale,
			At:    [2]time.Duration{halves[0][len(halves[0])/2].At, halves[1][len(halves[1])/2].At},
			Grows: f.held && last.At >= f.from && growth > f.slack && growth > mostGrowth*first,
		})
	}
	return all
}

// floor is the value that a tenth of the readings is below.
func (f figure) floor(readings []Reading) float64 {
	values := make([]float64, len(readings))
	for i, r := range readings {
		values[i] = f.of(r)
	}
	slices.Sort(values)
	return values[len(values)/10]
}

// sample reads the processes periodically until ctx ends. A reading that fails is left out: faults go on.
func (r *run) sample(ctx context.Context) {
	every := min(max(r.o.Duration/60, 2*time.Second), 30*time.Second)
	var before time.Duration // when decisions were counted last
	decided := 0
	for begin := time.Now(); pause(ctx, every); {
		reading, err := r.read(ctx)
		if err != nil {
			r.count("readings of a soak that failed")
			continue
		}
		reading.At = time.Since(begin)
		r.mu.Lock()
		now := r.counts["reply "+string(events.StatusAssigned)]
		reading.Decisions = float64(now-decided) / (reading.At - before).Minutes()
		r.readings = append(r.readings, reading)
		r.mu.Unlock()
		decided, before = now, reading.At
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
	memory := client.InfoMap(ctx, "memory")
	if err := memory.Err(); err != nil {
		return reading, err
	}
	if reading.RedisMemory, err = strconv.ParseFloat(memory.Item("Memory", "used_memory"), 64); err != nil {
		return reading, err
	}
	reading.Bytes = map[string]uint64{}
	for _, name := range streams() {
		stream, err := r.js.Stream(ctx, name)
		if err != nil {
			return reading, err
		}
		state := stream.CachedInfo().State
		reading.Messages += state.Msgs
		reading.Bytes[name] = state.Bytes
	}
	return reading, nil
}

// addWorker adds a worker's process metrics.
func (r *Reading) addWorker(ctx context.Context, url string) error {
	families, err := usage.Metrics(ctx, url)
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

// soaked adds the readings of a soak to a report, and to its violations each growth, or that there are too few readings.
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

// soak formats the readings, at most 19 of them, as a table, and the trends.
func (r *Report) soak(b *strings.Builder) {
	if len(r.Readings) == 0 {
		return
	}
	fmt.Fprintf(b, "%8s %10s %11s %7s %7s %9s %12s\n", "after", "memory MiB", "goroutines", "files", "keys", "messages", "streams MiB")
	step := max(1, len(r.Readings)/10)
	for n := 0; n < len(r.Readings); n += step {
		x := r.Readings[n]
		fmt.Fprintf(b, "%8s %10.0f %11.0f %7.0f %7.0f %9d %12.1f\n", x.At.Round(time.Second), x.Memory/(1<<20), x.Goroutines, x.Descriptors, x.Keys, x.Messages, float64(x.bytes())/(1<<20))
	}
	for _, t := range r.Trends {
		fmt.Fprintf(b, "%-28s %8.1f, then %8.1f\n", t.Name, t.First, t.Then)
	}
}

// Plot draws the figures of a soak over time, each with its trend, to an SVG file.
func (r *Report) Plot(path string) error {
	var panels []*plot.Plot
	for i, f := range figures() {
		var course, trend plotter.XYs
		for _, reading := range r.Readings {
			course = append(course, plotter.XY{X: reading.At.Minutes(), Y: f.of(reading) / f.scale})
		}
		if i < len(r.Trends) {
			t := r.Trends[i]
			trend = plotter.XYs{{X: t.At[0].Minutes(), Y: t.First}, {X: t.At[1].Minutes(), Y: t.Then}}
		}
		p, err := plots.Course(f.name, course, trend)
		if err != nil {
			return err
		}
		panels = append(panels, p)
	}
	return plots.Save(path, 2, panels...)
}
