package account

import (
	"cmp"
	"slices"
)

// choice is the binding that a request gets, "" where nothing fits.
type choice struct {
	binding    string
	origin     Origin
	generation int64 // of the label, where it is claimed
	considered []Considered
}

// note lists a binding that was looked at; a full list keeps its last place
// for the one that is chosen.
func (c *choice) note(binding string, clusters int, v Verdict) {
	entry := Considered{Binding: binding, Clusters: clusters, Verdict: v}
	switch {
	case len(c.considered) < MaxConsidered:
		c.considered = append(c.considered, entry)
	case v == Chosen:
		c.considered[MaxConsidered-1] = entry
	}
}

// choose applies rule 3 to a runtime that has no assignment, in its order: the
// tenant's own, then one that is labelled with the tenant, then an unclaimed one.
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

// chooseOwn looks at the tenant's bindings and reports whether it may go on to
// claim another where none of them was chosen.
func (p *Pool) chooseOwn(r Request, c *choice) (mayClaim bool) {
	own := p.index.owned[r.Tenant]
	best, live := p.best(r, own, Claiming, InUse), p.liveElsewhere(r, own)
	c.origin = Own
	if best == "" {
		best, c.origin = p.best(r, own, Draining), Revived
	}
	if best != "" && live && p.bindings[best].Count == 0 {
		best = "" // I4: an idle account is a second one beside the barred one in use
	}
	c.binding = best
	for _, name := range own {
		c.note(name, p.bindings[name].Count, p.verdict(r, name, best))
	}
	return best == "" && !live
}

// liveElsewhere reports whether a tenant with one account has runtimes on one
// that must not gain any: it then waits rather than begin a second (I4).
func (p *Pool) liveElsewhere(r Request, own []string) bool {
	return !r.Terms.Several && slices.ContainsFunc(own, func(name string) bool {
		rec := p.bindings[name]
		return barred(r, name) && rec.Count > 0 && (rec.State == Claiming || rec.State == InUse)
	})
}

// best is the tenant's binding in one of the states that the strategy puts
// first, among those that may gain a runtime; ties go by name.
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

// prefers reports whether a comes before b, being no tie. A tenant with one
// account gets its fullest, whatever the strategy: an idle second one may
// exist, and to use that would be a second account (I4). Of equal ones it gets the one that was claimed last: after a loss
// that took departures along two are in use, and the earlier one had been left before the other was claimed.
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

// chooseSeen takes the first suggestion that no tenant holds in Redis, those that
// are labelled with the tenant before the unclaimed ones.
//
// Rule 12: no request claims an unclaimed one ahead of those who wait.
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
	case known && rec.State != Free && rec.Tenant == r.Tenant: // looked at among its own
	case known: // another's, or runtimes are on it that its label does not account for
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

// chooseShared takes the least used binding of a shared pool; ties go by name.
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
