package main

import (
	"hash/maphash"
	"time"
)

// explorer visits all reachable states in breadth-first order, so the first trace to a state is a shortest
// one.
type explorer struct {
	*model
	seed    maphash.Seed
	chunks  [][]state
	parents []uint32
	table   []uint32 // index of the state plus 1, by hash

	edges []uint32 // the targets of the steps that workers make by themselves
	from  []uint32 // by state: the index of its first edge
}

const chunk = 1 << 14

// bounds limit an exploration.
type bounds struct {
	states int
	time   time.Duration
	first  bool // stop at the first violation
}

// violation is a violated invariant, where it was found first, and how often it was found.
type violation struct {
	name  string
	count int
	at    uint32 // the state
	move  int    // the move from there that violates it, -1 for the state itself
}

// report is the result of an exploration.
type report struct {
	states, steps, depth, quiet int
	complete                    bool
	took                        time.Duration
	violations                  []violation
}

func newExplorer(m *model) *explorer {
	return &explorer{model: m, seed: maphash.MakeSeed(), table: make([]uint32, 1<<12)}
}

func (x *explorer) at(i uint32) *state { return &x.chunks[i/chunk][i%chunk] }

// slot returns the index of a state in the table, or of its free place.
func (x *explorer) slot(s *state) (slot uint32, known bool) {
	mask := uint32(len(x.table) - 1)
	for slot = uint32(maphash.Comparable(x.seed, *s)) & mask; ; slot = (slot + 1) & mask {
		switch at := x.table[slot]; {
		case at == 0:
			return slot, false
		case *x.at(at - 1) == *s:
			return slot, true
		}
	}
}

// visit stores a state, and returns its number.
func (x *explorer) visit(s *state, parent uint32) uint32 {
	if len(x.parents)*2 > len(x.table) {
		x.grow()
	}
	slot, known := x.slot(s)
	if known {
		return x.table[slot] - 1
	}
	if len(x.parents)%chunk == 0 {
		x.chunks = append(x.chunks, make([]state, 0, chunk))
	}
	last := len(x.chunks) - 1
	x.chunks[last] = append(x.chunks[last], *s)
	x.parents = append(x.parents, parent)
	x.table[slot] = uint32(len(x.parents))
	return x.table[slot] - 1
}

func (x *explorer) grow() {
	x.table = make([]uint32, 2*len(x.table))
	for i := range uint32(len(x.parents)) {
		slot, _ := x.slot(x.at(i))
		x.table[slot] = i + 1
	}
}

// explore visits all states, up to the bounds.
func (x *explorer) explore(b bounds) report {
	begin := time.Now()
	r := report{complete: true}
	first := x.first()
	x.visit(&first, 0)
	for i := 0; i < len(x.parents) && r.complete; i++ {
		if i%1024 == 0 && (len(x.parents) > b.states || time.Since(begin) > b.time) {
			r.complete = false
		}
		x.expand(uint32(i), &r)
		if b.first && len(r.violations) > 0 {
			r.complete = false
		}
	}
	r.states, r.took = len(x.parents), time.Since(begin)
	for i := uint32(r.states - 1); i != 0; i = x.parents[i] {
		r.depth++
	}
	if r.complete {
		x.findLivelock(&r)
	}
	return r
}

// expand makes every step from a state. A violating state is not expanded.
func (x *explorer) expand(i uint32, r *report) {
	x.from = append(x.from, uint32(len(x.edges)))
	s := *x.at(i)
	if broken := x.check(&s); broken != "" {
		r.add(broken, i, -1)
		return
	}
	quiet := true
	for n, move := range x.moves(&s) {
		r.steps++
		if !move.fault {
			quiet = false
		}
		if move.broken != "" {
			r.add(move.broken, i, n)
			continue
		}
		move.next.order(x.workers)
		to := x.visit(&move.next, i)
		if !move.fault {
			x.edges = append(x.edges, to)
		}
	}
	if quiet {
		r.quiet++
		if broken := x.checkQuiet(&s); broken != "" {
			r.add(broken, i, -1)
		}
	}
}

func (r *report) add(name string, at uint32, move int) {
	for i := range r.violations {
		if r.violations[i].name == name {
			r.violations[i].count++
			return
		}
	}
	r.violations = append(r.violations, violation{name, 1, at, move})
}

// findLivelock looks for states from which workers alone never reach a state in which they have no further step.
func (x *explorer) findLivelock(r *report) {
	x.from = append(x.from, uint32(len(x.edges)))
	ends := make([]bool, r.states)
	for changed := true; changed; {
		changed = false
		for i := r.states - 1; i >= 0; i-- {
			if !ends[i] && x.leads(i, ends) {
				ends[i], changed = true, true
			}
		}
	}
	for i, end := range ends {
		if !end {
			r.add("I8 NothingLost: workers never come to an end", uint32(i), -1)
		}
	}
}

func (x *explorer) leads(i int, ends []bool) bool {
	out := x.edges[x.from[i]:x.from[i+1]]
	for _, to := range out {
		if ends[to] {
			return true
		}
	}
	return len(out) == 0
}
