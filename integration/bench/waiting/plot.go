package main

import (
	"fmt"
	"math"
	"strings"
)

// The plot's measures, in pixels.
const (
	panelWidth, panelHeight = 260.0, 160.0
	margin                  = 52.0
)

// panels are the drawn figures, each with its limit; 0 is none.
var panels = []struct {
	name  string
	limit float64
	of    func(figures) float64
}{
	{"CPU of an idle worker, % of a core", 1, func(f figures) float64 { return 100 * f.CPU }},
	{"Redis commands/s of an idle worker", 10, func(f figures) float64 { return f.Commands }},
	{"hand-on, 99th percentile, ms", 100, func(f figures) float64 { return f.HandOn.P99 }},
	{"enter, median, ms", 0, func(f figures) float64 { return f.Enter.Median }},
	{"leave, median, ms", 0, func(f figures) float64 { return f.Leave.Median }},
	{"restart to hand-on, s", 5, func(f figures) float64 { return f.Restart }},
}

// plot draws a panel for each figure over the number of waiting requests, on a logarithmic axis, with a
// dashed line at its limit.
func plot(all []figures) string {
	width, height := 3*(panelWidth+2*margin), 2*(panelHeight+2*margin)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12" role="img">`+"\n", width, height)
	b.WriteString("<title>What requests that wait cost</title>\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="#fff"/>`+"\n", width, height)
	for i, p := range panels {
		left, top := float64(i%3)*(panelWidth+2*margin)+margin, float64(i/3)*(panelHeight+2*margin)+margin
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" font-weight="bold">%s</text>`+"\n", left, top-14, p.name)
		low, high := math.Inf(1), p.limit
		for _, f := range all {
			low, high = min(low, p.of(f)), max(high, p.of(f))
		}
		scale := decades(min(low, max(p.limit, low)), high)
		y := func(value float64) float64 { return top + panelHeight*(1-scale.at(value)) }
		for d := scale.from; d <= scale.to; d++ {
			at := y(math.Pow(10, d))
			fmt.Fprintf(&b, `<path d="M%.1f %.1fh%.0f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%g</text>`+"\n", left, at, panelWidth, left-6, at+4, math.Pow(10, d))
		}
		if p.limit > 0 {
			fmt.Fprintf(&b, `<path d="M%.1f %.1fh%.0f" stroke="#c2410c" stroke-dasharray="5 4"/>`+"\n", left, y(p.limit), panelWidth)
		}
		wide := panelWidth / float64(len(all))
		for n, f := range all {
			x, at := left+wide*(float64(n)+0.3), y(p.of(f))
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#1d4ed8"/><text x="%.1f" y="%.1f" text-anchor="middle">%.3g</text>`, x, at, wide*0.4, top+panelHeight-at, x+wide*0.2, at-4, p.of(f))
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%d</text>`+"\n", x+wide*0.2, top+panelHeight+16, f.Waiting)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// axis is a logarithmic axis between two powers of ten.
type axis struct{ from, to float64 }

func decades(low, high float64) axis {
	a := axis{math.Floor(math.Log10(max(low, 0.01))) - 1, math.Ceil(math.Log10(max(high, 0.01)))}
	a.to = max(a.to, a.from+1)
	return a
}

// at returns the position of a value on the axis, from 0 to 1.
func (a axis) at(value float64) float64 {
	return min(max((math.Log10(max(value, 1e-9))-a.from)/(a.to-a.from), 0), 1)
}
