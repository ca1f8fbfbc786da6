package page

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/history"
)

// The size of a plot in SVG units; the page scales it.
const (
	plotWidth  = 600
	plotHeight = 64
)

// plots has the small plots of the answers of all workers.
type plots struct {
	Bars     []bar  // answers in each time slot
	Rejected []bar  // rejections among them
	Median   string // SVG points of the line of the median response time
	High     string // likewise of the 95 % quantile

	Now, Peak string // answers per second: in the last complete time slot, and in the busiest
	P50, P95  string // quantiles of the response times of all time slots; "" if unknown
	Total     int
}

type bar struct{ X, Y, Width, Height string }

func newPlots(rates []history.Rate) plots {
	var p plots
	peak, worst := 0, time.Duration(0)
	var all history.Histogram
	for _, r := range rates {
		peak = max(peak, r.Answers)
		worst = max(worst, r.Took.Quantile(.95))
		p.Total += r.Answers
		for i, n := range r.Took {
			all[i] += n
		}
	}
	for i, r := range rates {
		if r.Answers > 0 {
			p.Bars = append(p.Bars, barAt(i, r.Answers, peak))
		}
		if r.Rejected > 0 {
			p.Rejected = append(p.Rejected, barAt(i, r.Rejected, peak))
		}
	}
	p.Median, p.High = line(rates, .5, worst), line(rates, .95, worst)
	p.Now, p.Peak = perSecond(rates[len(rates)-2].Answers), perSecond(peak)
	if all.Quantile(.5) > 0 {
		p.P50, p.P95 = short(all.Quantile(.5)), short(all.Quantile(.95))
	}
	return p
}

func perSecond(events int) string { return fmt.Sprintf("%.3g", float64(events)/history.Slot.Seconds()) }

func barAt(i, n, peak int) bar {
	width := float64(plotWidth) / history.Slots
	height := max(1.5, float64(n)/float64(peak)*(plotHeight-2))
	return bar{
		X: decimal(float64(i)*width + .5), Y: decimal(plotHeight - height),
		Width: decimal(width - 1.5), Height: decimal(height),
	}
}

// line returns the SVG points of a quantile of the response times over time. worst is the time at the top of the
// plot. It skips slots without known times, and draws a single slot as a dash.
func line(rates []history.Rate, q float64, worst time.Duration) string {
	var points []string
	var dash string
	width := float64(plotWidth) / history.Slots
	for i, r := range rates {
		if took := r.Took.Quantile(q); took > 0 {
			y := plotHeight - 2 - float64(took)/float64(worst)*(plotHeight-6)
			points = append(points, decimal((float64(i)+.5)*width)+","+decimal(y))
			dash = decimal((float64(i)+.9)*width) + "," + decimal(y)
		}
	}
	if len(points) == 1 {
		points = append(points, dash)
	}
	return strings.Join(points, " ")
}

func decimal(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") }

// short formats a duration with one unit, or with two from a minute on.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
}

// seconds formats a duration without fractions of a second, since the page updates it every second. A negative one
// becomes 0 s.
func seconds(d time.Duration) string {
	if d = max(0, d.Truncate(time.Second)); d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return short(d)
}

// segment is a part of a bar. Its position and width are percentages of the bar.
type segment struct {
	Class    string
	Label    string // what the segment means
	Count    int
	X, Width string
}

// Pattern returns the id of the layout's pattern to draw over the segment, "" for none: the meaning must not
// depend on the colour alone.
func (s segment) Pattern() string {
	switch s.Class {
	case "draining":
		return "hatch"
	case "dirty", "dirtying":
		return "dots"
	case "internal", "cordoned", "deleting", "duplicate", "held", "missing", "unknown":
		return "bars"
	case "shared":
		return "stripes"
	default:
		return ""
	}
}

// Segments returns the parts of the pool's bar in this order: claimed accounts from full to empty, then those
// without a limit, then the other states in the order of account.States, which ends with free accounts.
func (p *pool) Segments() []segment {
	var parts []segment
	add := func(class, label string, n int) {
		if n > 0 {
			parts = append(parts, segment{Class: class, Label: label, Count: n})
		}
	}
	for level := len(p.Levels) - 1; level > 0; level-- {
		add(fmt.Sprintf("level%d", level), levelNames[level], p.Levels[level])
	}
	add("level0", levelNames[0], p.Levels[0])
	for _, c := range p.Standings() {
		if c.Standing != account.InUse {
			add(string(c.Standing), string(c.Standing), c.Count)
		}
	}
	from := 0.0
	for i := range parts {
		width := float64(parts[i].Count) / float64(p.Accounts()) * 100
		parts[i].X, parts[i].Width = percent(from), percent(width)
		from += width
	}
	return parts
}

var levelNames = [...]string{
	"claimed, without limit", "claimed, under a quarter full", "claimed, under half full",
	"claimed, under three quarters full", "claimed, nearly full", "claimed, at the limit",
}

func percent(f float64) string { return fmt.Sprintf("%.3f%%", f) }

// parentMap shows a parent network range as a strip.
type parentMap struct {
	Name  string
	CIDR  string
	Used  []segment
	Count int    // blocks that no other block contains
	Share string // share of the addresses that is used
}

// mostBlocks limits the rectangles of one strip; further ones are not drawn. Blocks without a visible gap between
// them share a rectangle.
const mostBlocks = 512

var errOutside = errors.New("the block lies outside its parent range")

// newParentMap draws the blocks at their positions in the parent range. It returns errOutside if a block is not in
// the range.
func newParentMap(p Parent) (parentMap, error) {
	m := parentMap{Name: p.Name, CIDR: p.CIDR.Masked().String()}
	used := slices.Clone(p.Used)
	slices.SortFunc(used, func(a, b netip.Prefix) int {
		return cmp.Or(a.Masked().Addr().Compare(b.Masked().Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var outer netip.Prefix
	share, from, to := 0.0, -1.0, -1.0
	flush := func() {
		if to > from && len(m.Used) < mostBlocks {
			m.Used = append(m.Used, segment{X: percent(from * 100), Width: percent((to - from) * 100)})
		}
	}
	for _, block := range used {
		if !p.CIDR.Contains(block.Addr()) || block.Bits() < p.CIDR.Bits() {
			return m, fmt.Errorf("%w: %s", errOutside, block)
		}
		if outer.IsValid() && outer.Contains(block.Addr()) {
			continue
		}
		outer = block
		m.Count++
		size := 1 / float64(uint64(1)<<min(63, block.Bits()-p.CIDR.Bits()))
		at := offset(p.CIDR, block.Addr())
		share += size
		if at > to+.001 { // the gap is wide enough to see
			flush()
			from = at
		}
		to = max(to, at+size)
	}
	flush()
	m.Share = fmt.Sprintf("%.3g%%", share*100)
	return m, nil
}

// offset returns the position of an address in a range, from 0 to 1.
func offset(in netip.Prefix, a netip.Addr) float64 {
	bytes, at, weight := a.AsSlice(), 0.0, 0.5
	for bit := in.Bits(); bit < a.BitLen(); bit++ {
		if bytes[bit/8]&(0x80>>(bit%8)) != 0 {
			at += weight
		}
		weight /= 2
	}
	return at
}
