package main

import (
	"fmt"
	"math"
	"strings"
)

// The plot's measures, in pixels.
const (
	panelWidth, panelHeight = 300.0, 180.0
	margin                  = 48.0
)

// shares are the shares of a cost, from the bottom of a bar.
var shares = []struct {
	name, colour string
	of           func(cost) float64
}{
	{"NATS", "#15803d", func(c cost) float64 { return c.NATS }},
	{"Redis", "#c2410c", func(c cost) float64 { return c.Redis }},
	{"workers", "#1d4ed8", func(c cost) float64 { return c.Worker }},
}

// plot draws a panel for each axis: CPU microseconds per decision over its values.
func (g *growth) plot() string {
	var most float64
	for _, a := range g.Axes {
		for _, p := range a.Points {
			most = max(most, p.Cost.all())
		}
	}
	most = math.Ceil(most/50) * 50
	width, height := 2*(panelWidth+2*margin), float64((len(g.Axes)+1)/2)*(panelHeight+2*margin)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12" role="img">`+"\n", width, height)
	b.WriteString("<title>CPU microseconds per decision as the landscape grows</title>\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="#fff"/>`+"\n", width, height)
	for i, a := range g.Axes {
		left, top := float64(i%2)*(panelWidth+2*margin)+margin, float64(i/2)*(panelHeight+2*margin)+margin
		a.draw(&b, left, top, most)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (a *axis) draw(b *strings.Builder, left, top, most float64) {
	bottom := top + panelHeight
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-weight="bold">%s (largest / smallest: %.2f)</text>`+"\n", left, top-12, a.Name, a.ratio())
	for i := range 5 {
		value := most * float64(i) / 4
		y := bottom - panelHeight*float64(i)/4
		fmt.Fprintf(b, `<path d="M%.1f %.1fh%.0f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%.0f</text>`+"\n", left, y, panelWidth, left-6, y+4, value)
	}
	wide := panelWidth / float64(len(a.Points))
	for i, p := range a.Points {
		x := left + wide*(float64(i)+0.25)
		top := bottom
		for _, part := range shares {
			height := panelHeight * part.of(p.Cost) / most
			top -= height
			fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, x, top, wide/2, height, part.colour)
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%d</text>`+"\n", x+wide/4, bottom+16, p.Value)
	}
	for i, part := range shares {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="%s">%s</text>`+"\n", left+60*float64(i), bottom+34, part.colour, part.name)
	}
}
