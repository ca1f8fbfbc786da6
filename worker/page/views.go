package page

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/history"
)

const (
	overviewPools    = 200
	overviewTenants  = 8
	overviewAnswers  = 20
	overviewTroubles = 5
	tilesOnPage      = 120
	tenantsOnPage    = 50
)

// overviewData is the data of the first page.
type overviewData struct {
	*state
	Banner   banner
	Totals   totals
	Shown    []*pool
	Hidden   int
	Several  []tenant
	Answered bool // the ledger was read to its end
	Current  bool // the end was reached at most one slot of Plots before the state was read
	Answers  []answer
	Troubles []trouble
	Plots    plots
	Now      time.Time
}

func (p *Page) overview(r *http.Request) (view, int) {
	s := p.state(r)
	now := p.now()
	d := overviewData{
		state: s, Banner: s.banner(), Totals: s.Totals(), Now: now,
		Shown: s.Pools[:min(overviewPools, len(s.Pools))], Hidden: max(0, len(s.Pools)-overviewPools),
		Several:  s.Tenants[:min(overviewTenants, len(s.Tenants))],
		Answered: s.Past.Done, Current: s.Past.Done && s.Taken.Sub(s.Past.Whole) <= history.Slot, Troubles: p.opts.Recent.troubles(overviewTroubles),
	}
	if from := p.sources.Load(); from != nil {
		d.Answers, d.Plots = from.answersOf(from.past.Last(overviewAnswers)), newPlots(from.past.Rates())
	}
	return view{
		Title: "Pools", Nav: "overview", Body: "overview", Data: d, Taken: s.Taken,
		Live: []string{"faults", "totals", "pools", "answers", "troubles", "plots", "tenants", "networks"},
	}, http.StatusOK
}

// state returns the state; if none could be read in time, one with a fault. It is never nil.
func (p *Page) state(r *http.Request) *state {
	if s := p.cache.get(r.Context()); s != nil {
		return s
	}
	s := &state{Taken: p.now(), Faults: []fault{{
		Part: Worker, Says: fmt.Sprintf("could not read the state within %s; its log and /readyz may say why", readWithin),
		Only: "pools and counts are missing here, which says nothing of the events.",
	}}}
	p.outages.date(s.Faults, s.Taken)
	return s
}

// poolData is the data of the page of one pool.
type poolData struct {
	*pool
	Banner  banner
	Tiles   []acct
	Matched int
	Filters []filter
	Pages   pages
	Past    occupancy
	Now     time.Time
}

// poolQueue is a pool, and the time at which its queue is shown.
type poolQueue struct {
	*pool
	Now time.Time
}

// Line is the pool's queue at the page's time.
func (d poolData) Line() poolQueue { return poolQueue{d.pool, d.Now} }

// filter is a link of the pool's page that shows the accounts in one state, or all. Count is their number.
type filter struct {
	Label   string
	Count   int
	Link    string
	Current bool
}

// pages is a position in a paged list.
type pages struct {
	Number, Last   int
	First, Through int // items shown, from 1
	Total          int
	Before, Next   string // links, "" for none
}

func (p *Page) poolView(r *http.Request) (view, int) {
	name := r.PathValue("pool")
	s := p.state(r)
	of := s.pool(name)
	if of == nil {
		if !s.Read {
			text := fmt.Sprintf("%s %s.", s.Faults[0].Part, s.Faults[0].Says)
			return view{Title: "Pool " + name, Body: "failure", Data: text, Taken: s.Taken}, http.StatusServiceUnavailable
		}
		text := fmt.Sprintf("There is no pool %q: no binding in Gardener is labelled for it.", name)
		return view{Title: "No such pool", Body: "failure", Data: text, Taken: s.Taken}, http.StatusNotFound
	}
	want := account.State(r.URL.Query().Get("state"))
	d := poolData{pool: of, Banner: s.banner(), Now: p.now(), Filters: filters(of, want)}
	tiles := of.sorted()
	if want != "" {
		tiles = slices.DeleteFunc(slices.Clone(tiles), func(a acct) bool { return a.Standing != want })
	}
	d.Matched = len(tiles)
	d.Past = p.chartsOf(of, s, p.sources.Load())
	d.Pages = pageOf(r, len(tiles), tilesOnPage)
	d.Tiles = tiles[d.Pages.First-1+zero(d.Pages.Total) : d.Pages.Through]
	return view{
		Title: "Pool " + name, Body: "pool", Data: d, Taken: s.Taken, Live: []string{"faults", "poolhead", "occupancy", "tiles"},
	}, http.StatusOK
}

// zero returns 1 if total is 0, otherwise 0. Since pages.First counts from 1, and is 0 for an empty list,
// First-1+zero is the index of the first item in both cases.
func zero(total int) int {
	if total == 0 {
		return 1
	}
	return 0
}

func filters(of *pool, current account.State) []filter {
	path := "/pools/" + url.PathEscape(of.Name())
	out := []filter{{Label: "all", Count: of.Accounts(), Link: path, Current: current == ""}}
	for _, s := range account.States() {
		if n := of.counts[s]; n > 0 || s == current {
			out = append(out, filter{Label: string(s), Count: n, Link: path + "?state=" + string(s), Current: s == current})
		}
	}
	return out
}

// pageOf returns the requested position in a list of total items, size on a page. The page number is clamped to
// the existing pages; it is 1 if it is missing or no number.
func pageOf(r *http.Request, total, size int) pages {
	last := max(1, (total+size-1)/size)
	number, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil {
		number = 1
	}
	number = min(max(1, number), last)
	at := pages{Number: number, Last: last, Total: total, First: min(total, (number-1)*size+1), Through: min(total, number*size)}
	link := func(n int) string {
		q := r.URL.Query()
		q.Set("page", strconv.Itoa(n))
		return (&url.URL{Path: r.URL.Path, RawQuery: q.Encode()}).String()
	}
	if number > 1 {
		at.Before = link(number - 1)
	}
	if number < last {
		at.Next = link(number + 1)
	}
	return at
}

// tenantsData is the data of the page of tenants with several accounts.
type tenantsData struct {
	Banner  banner
	Several []tenant
	Known   bool // all accounts were read
	Pages   pages
}

func (p *Page) tenantsView(r *http.Request) (view, int) {
	s := p.state(r)
	at := pageOf(r, len(s.Tenants), tenantsOnPage)
	d := tenantsData{Banner: s.banner(), Known: s.Known(), Pages: at, Several: s.Tenants[at.First-1+zero(at.Total) : at.Through]}
	return view{
		Title: "Tenants with several accounts", Nav: "tenants", Body: "alltenants", Data: d, Taken: s.Taken,
		Live: []string{"faults", "tenantlist"},
	}, http.StatusOK
}
