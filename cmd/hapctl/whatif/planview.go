package whatif

import (
	"io"
	"math"
	"strconv"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/capacity"
)

// forecastView is the result of 'hapctl plan'.
type forecastView struct {
	HorizonDays float64    `json:"horizonDays"`
	Growth      float64    `json:"growth"`
	Risk        float64    `json:"risk"`
	Seed        uint64     `json:"seed"`
	Since       time.Time  `json:"since"` // the period that was replayed
	Until       time.Time  `json:"until"`
	WhatIf      []string   `json:"whatIf,omitempty"`
	Pools       []poolPlan `json:"pools"`

	decisions int64
}

// poolPlan is the forecast of one pool. Days count from now.
type poolPlan struct {
	Pool     string `json:"pool"`
	Accounts int    `json:"accounts"` // accounts that requests can get, now or later
	LeftOut  int    `json:"leftOut"`  // accounts that no request can get: see plannedPool
	Free     int    `json:"free"`
	Cleaning int    `json:"cleaning"`
	Clusters int    `json:"clusters"`

	Requests           int      `json:"requests"` // requests in the period that was replayed
	RequestsPerDay     float64  `json:"requestsPerDay"`
	NewTenants         float64  `json:"newTenants"`         // share of requests
	MedianLifetimeDays *float64 `json:"medianLifetimeDays"` // null if the history has no cluster that ended
	MedianCleaningDays *float64 `json:"medianCleaningDays"` // that of --cleaning if the history has no example

	Needed        int         `json:"needed"`
	More          int         `json:"more"` // how many more accounts Needed has than the pool, 0 if none
	WithoutNow    share       `json:"withoutNow"`
	WithoutNeeded share       `json:"withoutNeeded"`
	EmptyInDays   emptyIn     `json:"emptyInDays"`
	Use           []useBand   `json:"use"`
	WhatIf        *planWhatIf `json:"whatIf,omitempty"`
}

// share is the share of requests that find no account, with its confidence interval of 95 %.
type share struct {
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// emptyIn has the 5 %, 50 % and 95 % quantiles, over the runs, of the days until the first request that finds
// no account. null means after the horizon.
type emptyIn struct {
	Early  *float64 `json:"early"`
	Median *float64 `json:"median"`
	Late   *float64 `json:"late"`
}

// useBand has the 5 %, 50 % and 95 % quantiles, over the runs, of the number of accounts in use on a day.
type useBand struct {
	Day    float64 `json:"day"`
	Few    int     `json:"few"`
	Median int     `json:"median"`
	Many   int     `json:"many"`
}

// planWhatIf is the forecast with the changed terms.
type planWhatIf struct {
	Needed      int     `json:"needed"`
	Saves       int     `json:"saves"` // accounts; negative if more are needed
	WithoutNow  share   `json:"withoutNow"`
	EmptyInDays emptyIn `json:"emptyInDays"`
}

func newForecastView(f planFlags, past *history) forecastView {
	return forecastView{
		HorizonDays: cli.InDays(time.Duration(f.horizon)), Growth: f.growth, Risk: float64(f.risk), Seed: f.seed,
		Since: past.Since, Until: past.Until, Pools: []poolPlan{},
	}
}

func (v *forecastView) add(name string, p *plannedPool, f capacity.Forecast) {
	row := poolPlan{
		Pool: name, Accounts: len(p.Accounts), LeftOut: p.leftOut, Clusters: len(p.Clusters),
		Requests: len(p.Demand.Tenants), NewTenants: rounded(p.Demand.New),
		MedianLifetimeDays: medianOf(p.Demand.Lifetimes), MedianCleaningDays: medianOf(p.Demand.Cleanings),
		Needed: f.Needed, More: max(0, f.Needed-len(p.Accounts)),
		WithoutNow: shareOf(f.Now), WithoutNeeded: shareOf(f.WithNeeded), EmptyInDays: emptyOf(f.RunsOut),
	}
	for _, a := range p.Accounts {
		switch {
		case a.Cleaning:
			row.Cleaning++
		case a.Tenant == "":
			row.Free++
		}
	}
	if p.Demand.Window > 0 {
		row.RequestsPerDay = rounded(float64(row.Requests) / cli.InDays(p.Demand.Window))
	}
	for _, b := range f.Use {
		row.Use = append(row.Use, useBand{Day: rounded(cli.InDays(b.At)), Few: b.Few, Median: b.Median, Many: b.Many})
	}
	v.decisions += f.Decisions
	v.Pools = append(v.Pools, row)
}

// compare adds the forecasts with the changed terms. Both must have the same pools.
func (v *forecastView) compare(other forecastView) {
	for i := range v.Pools {
		p, o := &v.Pools[i], other.Pools[i]
		p.WhatIf = &planWhatIf{Needed: o.Needed, Saves: p.Needed - o.Needed, WithoutNow: o.WithoutNow, EmptyInDays: o.EmptyInDays}
	}
}

func (v forecastView) Show(w io.Writer, wide bool) {
	header := []string{"POOL", "ACCOUNTS", "FREE", "PER-DAY", "WITHOUT", "EMPTY-IN", "NEEDED", "MORE"}
	if wide {
		header = append(header, "EARLY", "LATE", "CLEANING", "CLUSTERS", "LIFETIME", "CLEANED-IN", "NEW-TENANTS", "LEFT-OUT")
	}
	if len(v.WhatIf) > 0 {
		header = append(header, "WHAT-IF", "SAVES")
	}
	rows := make([][]string, len(v.Pools))
	for i, p := range v.Pools {
		rows[i] = []string{
			p.Pool, strconv.Itoa(p.Accounts), strconv.Itoa(p.Free), strconv.FormatFloat(p.RequestsPerDay, 'g', 3, 64),
			percentText(p.WithoutNow.Share), v.days(p.EmptyInDays.Median), strconv.Itoa(p.Needed), countOf(p.More),
		}
		if wide {
			rows[i] = append(rows[i], v.days(p.EmptyInDays.Early), v.days(p.EmptyInDays.Late), countOf(p.Cleaning), strconv.Itoa(p.Clusters),
				medianText(p.MedianLifetimeDays), medianText(p.MedianCleaningDays), percentText(p.NewTenants), countOf(p.LeftOut))
		}
		if p.WhatIf != nil {
			rows[i] = append(rows[i], strconv.Itoa(p.WhatIf.Needed), strconv.Itoa(p.WhatIf.Saves))
		}
		rows[i] = cli.Dashed(rows[i])
	}
	cli.Table(w, header, rows)
}

// days returns a number of days as text; nil is a time after the horizon.
func (v forecastView) days(at *float64) string {
	if at == nil {
		return ">" + cli.SpanText(time.Duration(v.HorizonDays*float64(cli.Day)))
	}
	return cli.SpanText(time.Duration(*at * float64(cli.Day)))
}

func medianText(days *float64) string {
	if days == nil {
		return "unknown"
	}
	return cli.SpanText(time.Duration(*days * float64(cli.Day)))
}

func countOf(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// percentText returns a share in per cent, with three significant digits.
func percentText(share float64) string {
	return strconv.FormatFloat(100*share, 'g', 3, 64) + "%"
}

// rounded rounds to four decimals; a forecast is not more precise.
func rounded(x float64) float64 { return math.Round(10_000*x) / 10_000 }

func shareOf(e capacity.Estimate) share {
	return share{Share: rounded(e.Share), Low: rounded(e.Low()), High: rounded(e.High())}
}

func emptyOf(q capacity.Quantiles) emptyIn {
	at := func(d time.Duration) *float64 {
		if d == capacity.Never {
			return nil
		}
		days := rounded(cli.InDays(d))
		return &days
	}
	return emptyIn{Early: at(q.Early), Median: at(q.Median), Late: at(q.Late)}
}

// medianOf returns the median in days, nil if it is unknown.
func medianOf(t capacity.Times) *float64 {
	var median time.Duration
	switch t := t.(type) {
	case *capacity.Observed:
		median = t.Median()
	case capacity.Fixed:
		median = time.Duration(t)
	}
	if median == capacity.Never {
		return nil
	}
	days := rounded(cli.InDays(median))
	return &days
}
