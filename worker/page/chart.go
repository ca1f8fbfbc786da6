package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/history"
)

// occupancy is how full a pool was, over a day and over a month.
type occupancy struct {
	Done   bool // the ledger was read to its end, and all counts are known
	Read   uint64
	End    uint64
	Charts []chart
	Keep   time.Duration // how long the ledger keeps replies of released clusters
}

// chart is one drawing of an occupancy.
type chart struct {
	Of, Window string
	Area, Line string // SVG paths
	First, Now int
	Peak       int
	All        int // how many accounts the pool has now; 0 for a chart of clusters
	Began      time.Time
}

// chartsOf draws how full a pool was, as two SVG paths per chart. It draws no charts while Done is false. A chart
// library would need a script, without which the page must work too, or inline styles, which the page's
// Content-Security-Policy forbids.
func (p *Page) chartsOf(of *pool, s *state, from *Sources) occupancy {
	o := occupancy{Done: s.Past.Done && of.Known(), Read: s.Past.Read, End: s.Past.End}
	if from == nil {
		return o
	}
	if o.Keep = from.Keep; !o.Done {
		return o
	}
	now := history.Level{Accounts: of.Accounts() - of.counts[account.Free], Clusters: of.Clusters}
	for _, w := range []history.Window{history.Day(), history.Month()} {
		levels := history.Levels(from.past.Changes(of.Name(), w), now)
		began := p.now().Add(-w.Step * time.Duration(w.Steps))
		if !of.Shared {
			o.Charts = append(o.Charts, newChart("Accounts in use", w.Name, began, of.Accounts(), levels, func(l history.Level) int { return l.Accounts }))
		}
		o.Charts = append(o.Charts, newChart("Clusters", w.Name, began, 0, levels, func(l history.Level) int { return l.Clusters }))
	}
	return o
}

func newChart(of, window string, began time.Time, all int, levels []history.Level, value func(history.Level) int) chart {
	c := chart{Of: of, Window: window, All: all, Began: began, First: value(levels[0]), Now: value(levels[len(levels)-1])}
	for _, l := range levels {
		c.Peak = max(c.Peak, value(l))
	}
	top := float64(max(c.Peak, all, 1))
	step := float64(plotWidth) / float64(len(levels))
	var line strings.Builder
	last := ""
	for i, l := range levels {
		y := decimal(plotHeight - 2 - float64(value(l))/top*(plotHeight-4))
		switch {
		case i == 0:
			fmt.Fprintf(&line, "M0 %s", y)
		case y != last:
			fmt.Fprintf(&line, "H%sV%s", decimal(float64(i)*step), y)
		}
		last = y
	}
	fmt.Fprintf(&line, "H%d", plotWidth)
	c.Line = line.String()
	c.Area = c.Line + fmt.Sprintf("V%dH0Z", plotHeight)
	return c
}
