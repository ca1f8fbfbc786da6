package account

import (
	"cmp"
	"slices"
)

// InTurn sorts the waiters in place into the order of service: tenants take turns, each with its oldest
// runtime first. Runtimes of tenants that were never served come first, by how long they wait; then those of the
// others, by how long ago the tenant was served. After the first runtimes of all tenants come the second ones,
// sorted in the same way, and so on.
func InTurn(waiters []Waiter) {
	slices.SortFunc(waiters, func(a, b Waiter) int { return cmp.Compare(a.Sequence, b.Sequence) })
	round := make(map[string]int, len(waiters))
	rounds := make(map[string]int, len(waiters)) // by runtime
	for _, w := range waiters {
		rounds[w.Runtime] = round[w.Tenant]
		round[w.Tenant]++
	}
	slices.SortStableFunc(waiters, func(a, b Waiter) int {
		return cmp.Or(cmp.Compare(rounds[a.Runtime], rounds[b.Runtime]), cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Sequence, b.Sequence))
	})
}

// hadTurn records that a waiting runtime of the tenant was served. If none waits any more, it forgets all
// turns.
func (p *Pool) hadTurn(tenant string, sequence int64) {
	if len(p.index.waiting) == 0 {
		clear(p.turns)
		return
	}
	p.turns[tenant] = sequence
}

// Queue returns the runtimes that wait, in the order of service. It may return ErrNotBuilt.
func (p *Pool) Queue() ([]Waiter, error) {
	if p.epoch == "" {
		return nil, ErrNotBuilt
	}
	waiters := p.waiters()
	for i, w := range waiters {
		waiters[i].Turn = p.turns[w.Tenant]
	}
	InTurn(waiters)
	return waiters, nil
}

func (p *Pool) waiters() []Waiter {
	waiters := make([]Waiter, 0, len(p.index.waiting))
	for id := range p.index.waiting {
		rt := p.runtimes[id]
		waiters = append(waiters, Waiter{Runtime: id, Tenant: rt.Tenant, Request: rt.Request, Sequence: rt.Sequence})
	}
	return waiters
}

// Heads returns the first waiting runtime of each of up to most tenants, in the order of service. It may
// return ErrNotBuilt.
func (p *Pool) Heads(most int) (Heads, error) {
	queue, err := p.Queue()
	heads, met := Heads{Waiting: len(queue)}, map[string]bool{}
	for _, w := range queue {
		if len(heads.First) < most && !met[w.Tenant] {
			heads.First, met[w.Tenant] = append(heads.First, w), true
		}
	}
	return heads, err
}
