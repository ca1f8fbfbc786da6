package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/hap-worker/hap-worker/integration/bench/origin"
)

// The measurements, in the order of the report.
const (
	nameBare        = "bare loop"
	nameTuned       = "tuned loop"
	nameSteady      = "worker, steady state"
	nameDeprovision = "worker, deprovisions"
	nameClaims      = "worker, claims"
	namePatches     = "bare patches"
)

var names = []string{
	nameBare, nameTuned, nameSteady, nameDeprovision, nameClaims, namePatches,
}

// ratios are the results of a run: the rate of one measurement (of) divided by the rate of another (by).
var ratios = []struct{ name, of, by string }{
	{"steady state / bare loop", nameSteady, nameBare},
	{"steady state / tuned loop", nameSteady, nameTuned},
	{"claims / bare patches", nameClaims, namePatches},
}

// ratioP99 names a further ratio: the worker's p99 latency at half of its rate, divided by that of the bare loop at the
// same rate.
const ratioP99 = "p99 at half of the rate, worker / bare loop"

type report struct {
	origin.Origin

	Rounds  int                  `json:"rounds"`
	Events  int                  `json:"events"`
	Claims  int                  `json:"claims"`
	Seconds float64              `json:"seconds"`
	Samples map[string][]sample  `json:"samples"`
	Medians map[string]sample    `json:"medians"`
	Ratios  map[string]float64   `json:"ratios"`
	Paced   map[string][]latency `json:"paced"`
	Latency map[string]latency   `json:"latency"`
	Phases  []map[string]phase   `json:"phases"` // of the worker, in each paced round
}

// latency is the time from publish to reply at a steady rate, in milliseconds. In report.Latency, each figure is the
// median over the rounds.
type latency struct {
	Rate float64 `json:"perSecond"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

func newReport(ctx context.Context, s settings) *report {
	return &report{
		Origin: origin.Of(ctx),
		Rounds: s.rounds, Events: s.events, Claims: s.claims,
		Samples: map[string][]sample{}, Medians: map[string]sample{}, Ratios: map[string]float64{},
		Paced: map[string][]latency{}, Latency: map[string]latency{},
	}
}

func (r *report) add(name string, s sample) { r.Samples[name] = append(r.Samples[name], s) }

// median returns the median of each figure.
func (r *report) median(name string) sample {
	rounds := r.Samples[name]
	return sample{
		Rate:     middleOf(rounds, func(s sample) float64 { return s.Rate }),
		CPU:      middleOf(rounds, func(s sample) float64 { return s.CPU }),
		Redis:    middleOf(rounds, func(s sample) float64 { return s.Redis }),
		NATS:     middleOf(rounds, func(s sample) float64 { return s.NATS }),
		Resident: int64(middleOf(rounds, func(s sample) float64 { return float64(s.Resident) })),
	}
}

// middleOf is the median of one figure of all rounds.
func middleOf[T any](rounds []T, figure func(T) float64) float64 {
	values := make([]float64, len(rounds))
	for i, round := range rounds {
		values[i] = figure(round)
	}
	return middle(values)
}

func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// summarize computes medians and ratios. A ratio is the median of the rounds' ratios, because both sides of a
// round had the same conditions.
func (r *report) summarize() {
	for name := range r.Samples {
		r.Medians[name] = r.median(name)
	}
	for name, rounds := range r.Paced {
		r.Latency[name] = latency{
			Rate: middleOf(rounds, func(l latency) float64 { return l.Rate }),
			P50:  middleOf(rounds, func(l latency) float64 { return l.P50 }),
			P99:  middleOf(rounds, func(l latency) float64 { return l.P99 }),
			Max:  middleOf(rounds, func(l latency) float64 { return l.Max }),
		}
	}
	for _, q := range ratios {
		values := ratiosOf(r.Samples[q.of], r.Samples[q.by], func(s sample) float64 { return s.Rate })
		if len(values) > 0 {
			r.Ratios[q.name] = middle(values)
		}
	}
	if values := ratiosOf(r.Paced[nameSteady], r.Paced[nameBare], func(l latency) float64 { return l.P99 }); len(values) > 0 {
		r.Ratios[ratioP99] = middle(values)
	}
}

// ratiosOf returns the ratios of one figure, one for each round that both sides have.
func ratiosOf[T any](of, by []T, figure func(T) float64) []float64 {
	values := make([]float64, min(len(of), len(by)))
	for i := range values {
		values[i] = figure(of[i]) / figure(by[i])
	}
	return values
}

func (r *report) print() {
	out := os.Stdout
	r.summarize()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\n%s\n\nMedians of %d rounds; CPU in seconds per 1,000 events.\n\n", r.Origin, r.Rounds)
	fmt.Fprintln(w, "\tper second\tits CPU\tRedis\tNATS and publisher\tits memory, MiB\t")
	for _, name := range names {
		m, measured := r.Medians[name]
		if !measured {
			continue
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.3f\t%.3f\t%.3f\t%.0f\t\n", name, m.Rate, m.CPU, m.Redis, m.NATS, float64(m.Resident)/(1<<20))
	}
	_ = w.Flush()
	fmt.Fprintln(out)
	for _, q := range ratios {
		if v, measured := r.Ratios[q.name]; measured {
			fmt.Fprintf(out, "%s: %.2f\n", q.name, v)
		}
	}
	for _, name := range names {
		if l, measured := r.Latency[name]; measured {
			fmt.Fprintf(out, "publish to reply at %.0f/s, %s: median %.2f ms, p99 %.2f ms, most %.2f ms\n", l.Rate, name, l.P50, l.P99, l.Max)
		}
	}
	for _, p := range phases {
		if len(r.Phases) > 0 {
			of := func(figure func(phase) float64) float64 {
				return middleOf(r.Phases, func(all map[string]phase) float64 { return figure(all[p.name]) })
			}
			fmt.Fprintf(out, "in the worker, %s: median %.2f ms, p99 %.2f ms, %.0f times\n", p.name,
				of(func(p phase) float64 { return p.P50 }), of(func(p phase) float64 { return p.P99 }), of(func(p phase) float64 { return p.Count }))
		}
	}
	if v, measured := r.Ratios[ratioP99]; measured {
		fmt.Fprintf(out, "%s: %.2f\n", ratioP99, v)
	}
}

func (r *report) write(path string) error { return writeJSON(path, r) }

func writeJSON(path string, figures any) error {
	data, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}

// plotOf returns the path of the plot next to a file of figures.
func plotOf(path string) string { return strings.TrimSuffix(path, ".json") + ".svg" }
