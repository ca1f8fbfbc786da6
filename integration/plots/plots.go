// Package plots draws the figures of benchmarks and soaks as SVG, as panels of one file.
package plots

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The sizes of a panel, in points.
const (
	panelWidth, panelHeight = 400, 240
	barWidth                = 30
	pad                     = 16
)

// Series are the values of one colour in a panel, one for each of the panel's names.
type Series struct {
	Name   string
	Values []float64
}

// Bars returns a panel with a bar for each name. A bar stacks the values of the series, the first at the bottom.
func Bars(title string, names []string, all ...Series) (*plot.Plot, error) {
	p := panel(title)
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
	var below *plotter.BarChart
	for i, s := range all {
		bars, err := plotter.NewBarChart(plotter.Values(s.Values), barWidth)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", title, s.Name, err)
		}
		bars.Color, bars.LineStyle.Width = plotutil.Color(i), 0
		if below != nil {
			bars.StackOn(below)
		}
		below = bars
		p.Add(bars)
		p.Legend.Add(s.Name, bars)
	}
	p.Y.Max *= 1.3 // room for the legend
	return p, nil
}

// Dots returns a panel with a row for each name, the first at the top, on a logarithmic axis. Values that are not
// positive have no place on it, and are left out. A dashed line marks the limit; 0 draws none.
func Dots(title string, names []string, limit float64, all ...Series) (*plot.Plot, error) {
	p := panel(title)
	down := slices.Clone(names)
	slices.Reverse(down)
	p.NominalY(down...)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	for i, s := range all {
		var at plotter.XYs
		for n, value := range s.Values {
			if value > 0 {
				at = append(at, plotter.XY{X: value, Y: float64(len(names) - 1 - n)})
			}
		}
		if len(at) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(at)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", title, s.Name, err)
		}
		dots.Color, dots.Shape, dots.Radius = plotutil.Color(i), draw.CircleGlyph{}, 4
		p.Add(dots)
		if len(all) > 1 {
			p.Legend.Add(s.Name, dots)
		}
	}
	p.Y.Min, p.Y.Max = -0.5, float64(len(names))-0.5+float64(min(1, len(all)-1)) // room for the legend
	if limit > 0 {
		if err := dash(p, 1, plotter.XYs{{X: limit, Y: p.Y.Min}, {X: limit, Y: p.Y.Max}}); err != nil {
			return nil, err
		}
	}
	// The axis has whole decades, around all that is drawn, and up to 1 at least; if nothing is drawn, from 1 to 10.
	// p.Add has set p.X.Min and p.X.Max.
	from, to := math.Floor(math.Log10(min(p.X.Min, max(p.X.Max, 1)))), math.Ceil(math.Log10(max(p.X.Max, 1)))
	p.X.Min, p.X.Max = math.Pow(10, from), math.Pow(10, max(to, from+1))
	return p, nil
}

// Course returns a panel of a figure over time, in minutes. The figure's axis begins at zero, or below if there are
// negative values. The trend is dashed; it may be empty.
func Course(title string, figure, trend plotter.XYs) (*plot.Plot, error) {
	p := panel(title)
	p.X.Label.Text = "minutes"
	line, err := plotter.NewLine(figure)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", title, err)
	}
	line.Color = plotutil.Color(0)
	p.Add(line)
	p.Y.Min = min(0, p.Y.Min)
	if len(trend) == 0 {
		return p, nil
	}
	return p, dash(p, 1, trend)
}

func panel(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	return p
}

// dash adds a dashed line in a colour of plotutil.
func dash(p *plot.Plot, colour int, at plotter.XYs) error {
	line, err := plotter.NewLine(at)
	if err != nil {
		return err
	}
	line.Color, line.Dashes = plotutil.Color(colour), []vg.Length{5, 4}
	p.Add(line)
	return nil
}

// Save writes the panels to an SVG file, in rows of that many columns.
func Save(path string, columns int, panels ...*plot.Plot) error {
	rows := (len(panels) + columns - 1) / columns
	canvas := vgsvg.New(vg.Length(columns)*panelWidth, vg.Length(rows)*panelHeight)
	grid := slices.Collect(slices.Chunk(append(slices.Clip(panels), make([]*plot.Plot, rows*columns-len(panels))...), columns))
	places := plot.Align(grid, draw.Tiles{Rows: rows, Cols: columns, PadTop: pad, PadBottom: pad, PadLeft: pad, PadRight: pad, PadX: pad, PadY: pad}, draw.New(canvas))
	for i, p := range panels {
		p.Draw(places[i/columns][i%columns])
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	return os.WriteFile(path, svg.Bytes(), 0o600)
}
