package account

import (
	"cmp"
	"slices"
)

// choice is the choice for a request. binding is "" if nothing fits.
type choice struct {
	binding    string
	origin     Origin
	generation int64 // of the label, if the binding is to be claimed
	considered []Considered
}

// note adds a binding to the considered ones. If the list is full, the chosen binding replaces the last
// entry, and any other binding is left out.
func (c *choice) note(binding string, clusters int, v Verdict) {
	entry := Considered{Binding: binding, Clusters: clusters, Verdict: v}
	switch {
	case len(c.considered) < MaxConsidered:
		c.considered = append(c.considered, entry)
	case v == Chosen:
		c.considered[MaxConsidered-1] = entry
	}
}

// choose applies rule 3 to a runtime without an assignment, in its order: the tenant's own bindings, then a
// binding that is labelled with the tenant, then an unclaimed one. In a shared pool it chooses the least used
// binding, in a paused pool none.
func (p *Pool) choose(r Request) choice {
	var c choice
	switch {
	case p.paused:
	case r.Shared:
		p.chooseShared(r, &c)
	default:
		if free := p.chooseOwn(r, &c); free {
			p.chooseSeen(r, &c)
		}
	}
	return c
}

// chooseOwn chooses one of the tenant's bindings. It reports whether none was chosen and the tenant may claim
// another.
func (p *Pool) chooseOwn(r Request, c *choice) (mayClaim bool) {
	own := p.index.owned[r.Tenant]
	best, live := p.best(r, own, Claiming, InUse), p.liveElsewhere(r, own)
	c.origin = Own
	if best == "" {
		best, c.origin = p.best(r, own, Draining), Revived
	}
	if best != "" && live && p.bindings[best].Count == 0 {
		best = "" // I4: the barred account is in use, and this idle one would be a second account
	}
	c.binding = best
	for _, name := range own {
		c.note(name, p.bindings[name].Count, p.verdict(r, name, best))
	}
	return best == "" && !live
}

// liveElsewhere reports whether a tenant that may have only one account has runtimes on an account that must not
// gain any. The request must then not begin a second account (I4): it gets another account that is in use
// already, or waits.
func (p *Pool) liveElsewhere(r Request, own []string) bool {
	return !r.Terms.Several && slices.ContainsFunc(own, func(name string) bool {
		rec := p.bindings[name]
		return barred(r, name) && rec.Count > 0 && (rec.State == Claiming || rec.State == InUse)
	})
}

// best returns the binding of own that the strategy puts first, among those that are in one of the states, below
// the limit and not barred; of equal ones the first by name. It returns "" if there is none.
func (p *Pool) best(r Request, own []string, states ...State) string {
	best := ""
	for _, name := range own {
		rec := p.bindings[name]
		if !slices.Contains(states, rec.State) || barred(r, name) || r.Terms.full(rec) {
			continue
		}
		if best == "" || r.Terms.prefers(rec, p.bindings[best]) {
			best = name
		}
	}
	return best
}

// full reports whether the account is at its limit; a tenant's only account has none.
func (t Terms) full(rec Record) bool {
	return t.Several && t.Limit > 0 && rec.Count >= t.Limit
}

// prefers reports whether a comes strictly before b in the order of the strategy. For a tenant that may have
// only one account, the account with more runtimes comes first, whatever the strategy: an idle second
// account must not come into use (I4). Of two with as many runtimes, the one that was claimed last comes
// first: if Redis has lost departures, both look used, but the earlier one was empty before the later one
// was claimed.
func (t Terms) prefers(a, b Record) bool {
	switch {
	case !t.Several && a.Count == b.Count:
		return a.Claimed > b.Claimed
	case t.Several && t.Strategy == RoundRobin:
		return a.Count < b.Count
	case t.Several && t.Strategy == FillFirst:
		return a.Claimed > b.Claimed
	default:
		return a.Count > b.Count
	}
}

func (p *Pool) verdict(r Request, name, chosen string) Verdict {
	rec := p.bindings[name]
	switch {
	case name == chosen:
		return Chosen
	case rec.State == Dirtying:
		return HeldByOther
	case barred(r, name):
		return BarredHere
	case r.Terms.full(rec):
		return AtLimit
	default:
		return LessFitting
	}
}

// chooseSeen chooses the first suggestion that has no record in Redis and is not barred; none if there is no
// such one. Bindings that are labelled with the tenant come before unclaimed ones.
//
// Rule 12: while requests wait, only the one whose turn it is claims an unclaimed binding.
func (p *Pool) chooseSeen(r Request, c *choice) {
	overtakes := !r.InTurn && len(p.index.waiting) > 0
	for _, mine := range []bool{true, false} {
		if !mine && overtakes {
			return
		}
		for _, s := range r.Seen {
			if s.Mine != mine {
				continue
			}
			if p.consider(r, s, c); c.binding != "" {
				return
			}
		}
	}
}

func (p *Pool) consider(r Request, s Seen, c *choice) {
	rec, known := p.bindings[s.Binding]
	switch {
	case known && rec.State != Free && rec.Tenant == r.Tenant: // chooseOwn has looked at it
	case known: // another tenant's, or with runtimes that its label does not account for
		c.note(s.Binding, rec.Count, HeldByOther)
	case barred(r, s.Binding):
		c.note(s.Binding, 0, BarredHere)
	default:
		c.binding, c.generation, c.origin = s.Binding, s.Generation, Claimed
		if s.Mine {
			c.origin = Labelled
		}
		c.note(s.Binding, 0, Chosen)
	}
}

// chooseShared chooses the binding of Seen with the fewest runtimes, among those that are not barred and
// have no record or one of a shared pool. Of equal ones it chooses the first by name.
func (p *Pool) chooseShared(r Request, c *choice) {
	for _, s := range r.Seen {
		if p.sharable(r, s.Binding) && (c.binding == "" || p.lessUsed(s.Binding, c.binding)) {
			c.binding, c.origin = s.Binding, Shared
		}
	}
	for _, s := range r.Seen {
		v := MoreClusters
		switch {
		case s.Binding == c.binding:
			v = Chosen
		case barred(r, s.Binding):
			v = BarredHere
		case !p.sharable(r, s.Binding):
			v = HeldByOther
		}
		c.note(s.Binding, p.bindings[s.Binding].Count, v)
	}
}

func (p *Pool) sharable(r Request, name string) bool {
	rec, known := p.bindings[name]
	return !barred(r, name) && (!known || rec.shared())
}

func (p *Pool) lessUsed(a, b string) bool {
	return cmp.Or(cmp.Compare(p.bindings[a].Count, p.bindings[b].Count), cmp.Compare(a, b)) < 0
}
