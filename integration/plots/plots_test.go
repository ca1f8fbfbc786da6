package plots_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/hap-worker/hap-worker/integration/plots"
)

// TestSave: every kind of panel is written, also with nothing but zeros on a logarithmic axis and with places left over in
// the last row. The file is well-formed and has the panels' titles, names and legends.
func TestSave(t *testing.T) {
	t.Parallel()
	var panels []*plot.Plot
	add := func(p *plot.Plot, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		panels = append(panels, p)
	}
	add(plots.Bars("bindings", []string{"100", "10000"}, plots.Series{Name: "NATS", Values: []float64{50, 60}}, plots.Series{Name: "Redis", Values: []float64{20, 30}}))
	add(plots.Dots("p99, ms", []string{"flood", "writes hang"}, 100, plots.Series{Name: "alone", Values: []float64{1.3, 0}}, plots.Series{Name: "beside", Values: []float64{12, 900}}))
	add(plots.Dots("nothing, ms", []string{"10"}, 0, plots.Series{Values: []float64{0}}))
	add(plots.Course("goroutines", plotter.XYs{{X: 0, Y: 300}, {X: 1, Y: 310}}, plotter.XYs{{X: 0, Y: 300}, {X: 1, Y: 305}}))
	path := filepath.Join(t.TempDir(), "all.svg")
	if err := plots.Save(path, 2, panels...); err != nil {
		t.Fatal(err)
	}
	texts := textsOf(t, path)
	for _, want := range []string{"bindings", "10000", "NATS", "Redis", "p99, ms", "nothing, ms", "flood", "writes hang", "alone", "beside", "goroutines", "minutes"} {
		if !strings.Contains(texts, "|"+want+"|") {
			t.Errorf("the file does not say %q, but %s", want, texts)
		}
	}
}

// textsOf returns what an XML file says, separated by bars.
func textsOf(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all := "|"
	for decoder := xml.NewDecoder(file); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, is := token.(xml.CharData); is {
			all += strings.TrimSpace(string(text)) + "|"
		}
	}
}
