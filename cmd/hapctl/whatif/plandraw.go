package whatif

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

// The sizes in the drawing, in pixels.
const (
	panelWidth, panelHeight = 640.0, 150.0
	panelLeft, panelTop     = 60.0, 40.0
	panelFoot               = 40.0
)

// draw draws a panel for each pool: the accounts in use from now to the horizon, with lines for the present
// and the needed number of accounts.
func (v forecastView) draw(w io.Writer) error {
	var b strings.Builder
	height := max(1, float64(len(v.Pools))) * (panelHeight + panelTop + panelFoot)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12" role="img">`+"\n",
		panelWidth+panelLeft+160, height)
	b.WriteString("<title>Accounts in use, forecast</title>\n")
	fmt.Fprintf(&b, `<rect width="100%%" height="%.0f" fill="#fff"/>`+"\n", height)
	for i, p := range v.Pools {
		p.draw(&b, v, panelTop+float64(i)*(panelHeight+panelTop+panelFoot))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (p poolPlan) draw(b *strings.Builder, v forecastView, top float64) {
	most := max(p.Accounts, p.Needed, 1)
	for _, u := range p.Use {
		most = max(most, u.Many)
	}
	x := func(day float64) float64 { return panelLeft + panelWidth*day/v.HorizonDays }
	y := func(n int) float64 { return top + panelHeight*(1-float64(n)/(1.05*float64(most))) }
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-weight="bold">%s: %d accounts, %d needed</text>`+"\n",
		panelLeft, top-14, html.EscapeString(p.Pool), p.Accounts, p.Needed)
	var band, median strings.Builder
	for _, u := range p.Use {
		fmt.Fprintf(&band, "%.1f,%.1f ", x(u.Day), y(u.Many))
		fmt.Fprintf(&median, "%.1f,%.1f ", x(u.Day), y(u.Median))
	}
	for _, u := range slices.Backward(p.Use) {
		fmt.Fprintf(&band, "%.1f,%.1f ", x(u.Day), y(u.Few))
	}
	fmt.Fprintf(b, `<path d="M%.1f %.1fv%.0fh%.0f" fill="none" stroke="#555"/>`+"\n", panelLeft, top, panelHeight, panelWidth)
	fmt.Fprintf(b, `<polygon points="%s" fill="#1d4ed8" fill-opacity="0.2"/>`+"\n", strings.TrimSpace(band.String()))
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="#1d4ed8" stroke-width="2"/>`+"\n", strings.TrimSpace(median.String()))
	line := func(n int, colour, dash, text string, lower float64) {
		fmt.Fprintf(b, `<path d="M%.1f %.1fh%.0f" stroke="%s" stroke-dasharray="%s"/><text x="%.1f" y="%.1f" fill="%s">%s</text>`+"\n",
			panelLeft, y(n), panelWidth, colour, dash, panelLeft+panelWidth+6, y(n)+lower, colour, text)
	}
	line(p.Accounts, "#15803d", "none", fmt.Sprintf("%d now", p.Accounts), 14)
	line(p.Needed, "#b91c1c", "6 4", fmt.Sprintf("%d needed", p.Needed), -4)
	for i := range 4 {
		day := v.HorizonDays * float64(i) / 3
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">day %.0f</text>`+"\n", x(day), top+panelHeight+18, day)
	}
	for _, n := range []int{0, most / 2, most} {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="end">%d</text>`+"\n", panelLeft-8, y(n)+4, n)
	}
}
