package main

import (
	"strconv"

	"gonum.org/v1/plot"

	"github.com/hap-worker/hap-worker/integration/plots"
)

// panels are the drawn figures. A dashed line marks the limit of a figure; 0 is none.
var panels = []struct {
	name  string
	limit float64
	of    func(figures) float64
}{
	{"CPU of an idle worker, % of a core", 1, func(f figures) float64 { return 100 * f.CPU }},
	{"Redis commands/s of an idle worker", 10, func(f figures) float64 { return f.Executed }},
	{"hand-on, 99th percentile, ms", 100, func(f figures) float64 { return f.HandOn.P99 }},
	{"enter, median, ms", 0, func(f figures) float64 { return f.Enter.Median }},
	{"leave, median, ms", 0, func(f figures) float64 { return f.Leave.Median }},
	{"restart to hand-on, s", 5, func(f figures) float64 { return f.Restart }},
}

// draw draws a panel for each figure over the number of waiting requests.
func draw(path string, all []figures) error {
	var drawn []*plot.Plot
	for _, panel := range panels {
		var names []string
		var values []float64
		for _, f := range all {
			names, values = append(names, strconv.Itoa(f.Waiting)), append(values, panel.of(f))
		}
		p, err := plots.Dots(panel.name, names, panel.limit, plots.Series{Name: panel.name, Values: values})
		if err != nil {
			return err
		}
		drawn = append(drawn, p)
	}
	return plots.Save(path, 3, drawn...)
}
