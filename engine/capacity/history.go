package capacity

import (
	"slices"
	"time"
)

// Stay is a cluster's time in a pool, as recorded in the past.
type Stay struct {
	Tenant string
	Begin  time.Time
	End    time.Time // zero: the cluster still runs
}

// Past is the history of one pool's requests. The zero value has no requests.
type Past struct {
	// The history is complete from Since to Until. A cluster that ended before Since may be missing.
	Since, Until time.Time
	Stays        []Stay
	Refused      []Refused       // that found no account
	Cleanings    []time.Duration // each from the departure of an account's last cluster to the return of the account to its pool
}

// Refused is a request that found no account.
type Refused struct {
	Tenant string
	At     time.Time
}

// Demand derives the demand from the past. cleaning is the cleaning time to use if the past has none.
func (p *Past) Demand(cleaning time.Duration) Demand {
	type request struct {
		tenant string
		at     time.Time
	}
	var requests []request
	known := map[string]bool{} // tenants that are no longer new
	var lives []Observation
	for _, s := range p.Stays {
		end := s.End
		if end.IsZero() {
			end = p.Until
		}
		if end.Before(p.Since) {
			known[s.Tenant] = true
			continue
		}
		from := time.Duration(0)
		if s.Begin.Before(p.Since) {
			known[s.Tenant] = true
			from = p.Since.Sub(s.Begin)
		} else {
			requests = append(requests, request{s.Tenant, s.Begin})
		}
		lives = append(lives, Observation{From: from, To: end.Sub(s.Begin), Ended: !s.End.IsZero()})
	}
	for _, r := range p.Refused {
		if !r.At.Before(p.Since) {
			requests = append(requests, request{r.Tenant, r.At})
		}
	}
	slices.SortStableFunc(requests, func(a, b request) int { return a.at.Compare(b.at) })
	d := Demand{Window: p.Until.Sub(p.Since), Lifetimes: Observe(lives), Cleanings: Fixed(cleaning)}
	newcomers := 0
	for _, r := range requests {
		d.Tenants = append(d.Tenants, r.tenant)
		if !known[r.tenant] {
			known[r.tenant] = true
			newcomers++
		}
	}
	if len(requests) > 0 {
		d.New = float64(newcomers) / float64(len(requests))
	}
	if len(p.Cleanings) > 0 {
		cleanings := make([]Observation, len(p.Cleanings))
		for i, took := range p.Cleanings {
			cleanings[i] = Observation{To: took, Ended: true}
		}
		d.Cleanings = Observe(cleanings)
	}
	return d
}
