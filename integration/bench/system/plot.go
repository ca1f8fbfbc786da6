package main

import (
	"fmt"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/hap-worker/hap-worker/integration/plots"
)

// shares are the shares of a cost, from the bottom of a bar.
var shares = []struct {
	name string
	of   func(cost) float64
}{
	{"NATS", func(c cost) float64 { return c.NATS }},
	{"Redis", func(c cost) float64 { return c.Redis }},
	{"workers", func(c cost) float64 { return c.Worker }},
}

// plot draws a panel for each axis: CPU microseconds per decision over its values, on one scale.
func (g *growth) plot(path string) error {
	var panels []*plot.Plot
	var most float64
	for _, a := range g.Axes {
		p, err := a.bars()
		if err != nil {
			return err
		}
		panels, most = append(panels, p), max(most, p.Y.Max)
	}
	for _, p := range panels {
		p.Y.Max = most
	}
	return plots.Save(path, 2, panels...)
}

func (a *axis) bars() (*plot.Plot, error) {
	var names []string
	all := make([]plots.Series, len(shares))
	for _, p := range a.Points {
		names = append(names, strconv.Itoa(p.Value))
		for i, share := range shares {
			all[i].Name, all[i].Values = share.name, append(all[i].Values, share.of(p.Cost))
		}
	}
	return plots.Bars(fmt.Sprintf("%s: CPU per decision, µs (largest / smallest: %.2f)", a.Name, a.ratio()), names, all...)
}
