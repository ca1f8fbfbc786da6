package account

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
)

// Answer is a reply of the ledger, as far as a rebuild reads it.
type Answer struct {
	Pool     string // "" where the runtime was gone before it had any
	Runtime  string
	Request  string
	Tenant   string       // "" where the reply does not say
	State    RuntimeState // released and Superseded are gone, PoolExhausted is refused; "" says nothing of the runtime
	Binding  string
	Sequence int64
	Claimed  bool // this very request claimed the binding

	Generation int64 // of the claim, 0 where the reply does not say
}

// Gathering derives what pools and directory are built from (rule 13d). It is
// told of the ledger to its end, then of the labels from a live list, then of
// the Shoots, all read after the seal (rule 13c): read earlier, each could miss
// what the one before has led to. It is not safe for concurrent use.
type Gathering struct {
	runtimes map[string]*resident
	bindings map[string]engine.Binding
	highest  map[string]int64 // sequence by pool, and by bucket
	claims   map[tenure]claimed
	shoots   []lodging
	waiting  map[string]bool // runtimes of requests that wait
}

// lodging is a Shoot that names a binding.
type lodging struct{ runtime, binding string }

// resident is a runtime as its replies tell it.
type resident struct {
	Runtime
	pool  string  // "" where it was gone before it had any
	last  tenancy // its last assignment: a deprovision may name another tenant, or none
	since int64   // sequence of that assignment
}

// tenancy is a tenant on a binding of a pool.
type tenancy struct{ pool, binding, tenant string }

// tenure is one claim of a tenant.
type tenure struct {
	tenancy
	generation int64
}

// claimed says when a claim was decided.
type claimed struct {
	by    int64 // the decision, as the reply of the request that claimed says; 0 where there is none
	first int64 // the first assignment under it
}

// NewGathering returns one that was told nothing yet.
func NewGathering() *Gathering {
	return &Gathering{
		runtimes: map[string]*resident{}, bindings: map[string]engine.Binding{},
		highest: map[string]int64{}, claims: map[tenure]claimed{}, waiting: map[string]bool{},
	}
}

// Answer takes a reply of the ledger in. The one with the highest sequence is in
// force, not the newest: a worker that paused may have published late.
func (g *Gathering) Answer(a Answer) {
	if a.Runtime == "" || a.Sequence == 0 {
		return
	}
	place := a.Pool
	if place == "" {
		place = BucketOf(a.Runtime)
	}
	if a.Sequence > g.highest[place] {
		g.highest[place] = a.Sequence
	}
	if a.State == "" || a.State == RuntimeAssigned && a.Binding == "" {
		return
	}
	r := g.runtimes[a.Runtime]
	if r == nil {
		r = &resident{}
		g.runtimes[a.Runtime] = r
	}
	if a.State == RuntimeAssigned {
		at := tenancy{a.Pool, a.Binding, a.Tenant}
		if a.Sequence >= r.since {
			r.last, r.since = at, a.Sequence
		}
		g.claim(tenure{at, a.Generation}, a)
	}
	if a.after(r.Runtime) {
		r.pool, r.Runtime = a.Pool, a.runtime()
	}
}

func (g *Gathering) claim(under tenure, a Answer) {
	c := g.claims[under]
	if a.Claimed {
		c.by = max(c.by, a.Sequence)
	}
	if c.first == 0 || a.Sequence < c.first {
		c.first = a.Sequence
	}
	g.claims[under] = c
}

// claimedAt is the decision that claimed a binding for its tenant. The request that claimed it may never have been answered,
// or its reply is forgotten: then it is the first assignment, which came no earlier.
func (g *Gathering) claimedAt(of tenancy, generation int64) int64 {
	c := g.claims[tenure{of, generation}]
	if c == (claimed{}) {
		c = g.claims[tenure{of, 0}] // of a reply that names no generation
	}
	return cmp.Or(c.by, c.first)
}

// after reports whether the answer says more than what is known. A release and
// the Superseded of what waited share a sequence, and so may the waiting and the
// assignment of two requests for one runtime.
func (a Answer) after(known Runtime) bool {
	if a.Sequence != known.Sequence {
		return a.Sequence > known.Sequence
	}
	return weight(a.State, a.Binding) > weight(known.State, known.Binding)
}

func weight(s RuntimeState, binding string) int {
	switch {
	case s == RuntimeGone && binding != "":
		return 4
	case s == RuntimeGone:
		return 3
	case s == RuntimeAssigned:
		return 2
	default:
		return 1
	}
}

// runtime is the record that the answer stands for. What was published as
// assigned may have been answered, so it is confirmed.
func (a Answer) runtime() Runtime {
	rt := Runtime{State: a.State, Sequence: a.Sequence, Tenant: a.Tenant}
	switch a.State {
	case RuntimeAssigned:
		rt.Binding, rt.Request, rt.Confirmed, rt.Origin = a.Binding, a.Request, true, Own
		if a.Claimed {
			rt.Origin = Claimed
		}
	case RuntimeGone:
		rt.Binding = a.Binding
	default:
		rt.Request = a.Request
	}
	return rt
}

// Waits takes the runtime of a request in that waits: for Compare alone, since the ledger
// says which requests wait after a rebuild.
func (g *Gathering) Waits(runtime string) { g.waiting[runtime] = true }

// Binding takes a binding in, as Gardener has it.
func (g *Gathering) Binding(b engine.Binding) { g.bindings[b.Name] = b }

// Shoot adopts a cluster that the ledger has no assignment for: it was there
// before this service. One that is gone stays gone, since no second deprovision
// would ever end it; its binding stays clean while the Shoot is there.
func (g *Gathering) Shoot(s engine.Shoot) {
	id := RuntimeOf(s)
	if s.Binding != "" {
		g.shoots = append(g.shoots, lodging{id, s.Binding})
	}
	b, known := g.bindings[s.Binding]
	if !known || b.HyperscalerType == "" {
		return
	}
	r := g.runtimes[id]
	if r == nil {
		r = &resident{}
		g.runtimes[id] = r
	}
	if r.State == RuntimeAssigned || r.State == RuntimeGone {
		return
	}
	r.pool = b.Pool().Name()
	r.Runtime = Runtime{
		State: RuntimeAssigned, Binding: b.Name, Sequence: g.highest[r.pool],
		Confirmed: true, Origin: Adopted, Tenant: b.Tenant,
	}
}

// RuntimeOf is the runtime that a Shoot is counted as: what it names where that
// is an id, since no event can speak of another, else its own name.
func RuntimeOf(s engine.Shoot) string {
	if engine.ValidID(s.RuntimeID) {
		return s.RuntimeID
	}
	return s.Name
}

// Pools names the pools that bindings are labelled for.
func (g *Gathering) Pools() []string {
	pools := map[string]bool{}
	for _, b := range g.bindings {
		if b.HyperscalerType != "" {
			pools[b.Pool().Name()] = true
		}
	}
	return slices.Sorted(maps.Keys(pools))
}

// Size is the number of runtimes that are known.
func (g *Gathering) Size() int { return len(g.runtimes) }

// Directories returns what each bucket is installed with, by the bucket's name.
func (g *Gathering) Directories() map[string]Directory {
	out := make(map[string]Directory, Buckets)
	for n := range Buckets {
		name := BucketName(n)
		out[name] = Directory{Sequence: g.highest[name], Places: make(map[string]Place, len(g.runtimes)/Buckets)}
	}
	for id, r := range g.runtimes {
		place := Place{Pool: r.pool}
		if r.pool == "" {
			place = Place{Gone: true, Sequence: r.Sequence}
		}
		out[BucketOf(id)].Places[id] = place
	}
	return out
}
