package faults

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Report is the outcome of a run.
type Report struct {
	Seed       uint64
	Duration   time.Duration
	Figures    map[string]int // counts of actions, replies and faults
	Median     time.Duration  // from publishing to the final reply
	P99        time.Duration
	Settled    time.Duration // from the call of Conclude until everything was settled, or Settle was over
	Readings   []Reading     // of a soak
	Trends     []Trend       // of them
	Violations []string
}

// String formats the report as a table.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, load of %s, settled %.1fs after it was healed\n", r.Seed, r.Duration, r.Settled.Seconds())
	fmt.Fprintf(&b, "final replies after %s in the median, %s at the 99th percentile\n", r.Median.Round(time.Millisecond), r.P99.Round(time.Millisecond))
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		fmt.Fprintf(&b, "%8d  %s\n", r.Figures[name], name)
	}
	r.soak(&b)
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "VIOLATION  %s\n", v)
	}
	return b.String()
}

// figures adds the failures, the counts, and the times of answers.
func (b *book) figures(report *Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	report.Violations = append(report.Violations, b.failures...)
	maps.Copy(report.Figures, b.counts)
	report.Figures["runtimes"] = len(b.order)
	for _, labels := range b.labels {
		report.Figures["changes of labels"] += len(labels) - 1
	}
	if took := slices.Sorted(slices.Values(b.took)); len(took) > 0 {
		report.Median, report.P99 = took[len(took)/2], took[len(took)*99/100]
	}
}

// conclude ends the load, and adds the figures of faults and workers.
func (r *run) conclude() (*Report, error) {
	report, err := r.Conclude()
	if err != nil {
		return nil, err
	}
	report.Violations = append(report.Violations, r.crashes()...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.soaked(report)
	maps.Copy(report.Figures, r.injector.counts())
	for kind, n := range r.happened {
		report.Figures["fault: "+string(kind)] = n
	}
	report.Figures["faults skipped, since the last one of the part was not over"] = r.skipped
	for what, text := range map[string]string{
		"log: rebuilds": `"msg":"rebuilt"`, "log: claims revoked": `"msg":"claim revoked"`, "log: claims failed": `"msg":"claim failed"`,
		"log: events that came again": `"msg":"event will be redelivered"`, "log: attempts repeated": `"msg":"an attempt failed"`,
	} {
		for n := range r.o.Workers {
			content, _ := os.ReadFile(r.logOf(n))
			report.Figures[what] += bytes.Count(content, []byte(text))
		}
	}
	return report, nil
}
