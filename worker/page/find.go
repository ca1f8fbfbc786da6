package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/events"
)

const (
	maxSearched = 253 // bytes of a name; no valid name is longer
	foundOfKind = 20  // hits of one kind that are shown
	maxFinders  = 4   // searches at once
)

// found is the result of a search.
type found struct {
	Query string
	Kinds []foundKind
	Fault string // the error of the lookups that failed
	// Bounds say which streams were not searched to their beginning.
	Bounds []string
}

// foundKind are the hits of one kind.
type foundKind struct {
	Kind string
	Hits []hit
	More int
}

// hit is one thing that was found. Link is "" if it has no page.
type hit struct {
	Name, Link, Note         string
	Runtime, Tenant, Binding string // of a dead letter or an unsettled event
	Exact                    bool
}

// add adds the hits of one kind, sorted by name, the exact ones first.
func (f *found) add(kind string, hits []hit) {
	slices.SortFunc(hits, func(a, b hit) int {
		if a.Exact != b.Exact {
			if a.Exact {
				return -1
			}
			return 1
		}
		return natural.Compare(a.Name, b.Name)
	})
	f.put(kind, hits)
}

// put adds the hits of one kind in the order that they have. It keeps the first foundOfKind, and counts the
// others.
func (f *found) put(kind string, hits []hit) {
	if len(hits) == 0 {
		return
	}
	n := min(len(hits), foundOfKind)
	f.Kinds = append(f.Kinds, foundKind{kind, hits[:n], len(hits) - n})
}

// only returns the link of the only exact hit, or else of the only hit, for a redirect. It returns "" if
// there is no such hit, if the hit has no page, or if a lookup failed.
func (f *found) only() string {
	var all, exact []hit
	for _, k := range f.Kinds {
		all = append(all, k.Hits...)
	}
	for _, h := range all {
		if h.Exact {
			exact = append(exact, h)
		}
	}
	switch {
	case f.Fault != "":
	case len(exact) == 1:
		return exact[0].Link
	case len(all) == 1:
		return all[0].Link
	}
	return ""
}

// find looks a name up: runtimes and requests by their exact id, in Redis and the ledger; accounts, tenants
// and pools by a part of their name, in memory; releases by their binding, in the ledger; dead letters and
// unsettled events by the exact names in them, among the newest.
func (p *Page) find(w http.ResponseWriter, r *http.Request) {
	f := found{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	switch {
	case f.Query == "":
		p.fail(w, http.StatusBadRequest, "Give the id of a runtime or a request, or a part of the name of a tenant, an account or a pool.")
		return
	case len(f.Query) > maxSearched:
		p.fail(w, http.StatusBadRequest, fmt.Sprintf("No name has more than %d characters.", maxSearched))
		return
	case !p.finders.take():
		w.Header().Set("Retry-After", "1")
		p.fail(w, http.StatusServiceUnavailable, "Others are searching just now. Try again in a moment.")
		return
	}
	defer p.finders.give()
	from := p.connected(w)
	if from == nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), recordWithin)
	defer cancel()
	var faults []error
	if engine.ValidID(f.Query) {
		faults = append(faults, f.runtime(ctx, from), f.requests(ctx, from))
	}
	s := p.state(r)
	if !s.Read {
		faults = append(faults, fmt.Errorf("%s %s", s.Faults[0].Part, s.Faults[0].Says))
	}
	f.names(s, from)
	faults = append(faults, f.releases(ctx, from))
	faults = append(faults, p.unanswered(&f, from)...)
	if err := errors.Join(faults...); err != nil {
		f.Fault = err.Error()
	}
	if to := f.only(); to != "" {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	status := http.StatusOK
	if len(f.Kinds) == 0 {
		status = http.StatusNotFound
	}
	p.write(w, status, view{Title: "Search", Body: "found", Data: f, Query: f.Query, Taken: p.now()})
}

func (f *found) runtime(ctx context.Context, from *Sources) error {
	known := hit{Name: f.Query, Link: linkTo("runtimes", f.Query), Exact: true}
	place, _, fault := from.Records.Runtime(ctx, f.Query)
	if fault == nil && place.Pool != "" {
		f.add("Runtimes", []hit{known})
		return nil
	}
	err := from.Ledger.OfRuntime(ctx, f.Query, func(events.Stored) error { return errEnough })
	if errors.Is(err, errEnough) {
		f.add("Runtimes", []hit{known})
		return nil
	}
	return errors.Join(fault, err)
}

// requests finds the answers to the requests of that id, newest first.
func (f *found) requests(ctx context.Context, from *Sources) error {
	var all []answer
	err := from.Ledger.OfRequest(ctx, f.Query, func(s events.Stored) error {
		if a := from.addressed(told(s)); s.Foreign == nil && a.Status != events.StatusSealed && a.Record() != "" {
			all = append(all, a)
		}
		return nil
	})
	slices.SortFunc(all, newestFirst)
	var hits []hit
	for _, a := range all {
		hits = append(hits, hit{Name: f.Query, Link: a.Record(), Note: "for " + cmp.Or(a.RuntimeID, a.Binding), Exact: true})
	}
	f.put("Requests", hits)
	return err
}

// releases finds the answers to the releases of a binding. They are not exact hits, so that the name of an
// account leads to its page, which shows them too.
func (f *found) releases(ctx context.Context, from *Sources) error {
	answers, err := from.releasesOf(ctx, f.Query)
	var hits []hit
	for _, a := range answers {
		hits = append(hits, hit{Name: a.RequestID, Link: a.Record(), Note: string(a.Status)})
	}
	f.put("Releases", hits)
	return err
}

// names searches the pools, accounts and tenants that the page has in memory.
func (f *found) names(s *state, from *Sources) {
	var pools, accounts []hit
	tenants := map[string]bool{}
	for _, p := range s.Pools {
		if strings.Contains(p.Name(), f.Query) {
			pools = append(pools, hit{Name: p.Name(), Link: linkTo("pools", p.Name()), Exact: p.Name() == f.Query})
		}
		for i := range p.accounts {
			a := &p.accounts[i]
			if strings.Contains(a.Name, f.Query) {
				accounts = append(accounts, hit{Name: a.Name, Link: linkTo("accounts", a.Name), Note: "of pool " + p.Name(), Exact: a.Name == f.Query})
			}
			if strings.Contains(a.Tenant, f.Query) {
				tenants[a.Tenant] = true
			}
		}
	}
	for _, name := range from.past.Tenants(f.Query, 10*foundOfKind) {
		tenants[name] = true
	}
	var named []hit
	for name := range maps.Keys(tenants) {
		named = append(named, hit{Name: name, Link: linkTo("tenants", name), Exact: name == f.Query})
	}
	f.add("Tenants", named)
	f.add("Accounts", accounts)
	f.add("Pools", pools)
}

// connected returns the sources. While the worker is starting, it answers the request with an error and
// returns nil.
func (p *Page) connected(w http.ResponseWriter) *Sources {
	from := p.sources.Load()
	if from == nil {
		p.fail(w, http.StatusServiceUnavailable, "The worker is starting and not connected to everything yet.")
	}
	return from
}
