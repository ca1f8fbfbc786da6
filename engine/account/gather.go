package account

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
)

// Answer has the fields of a reply in the ledger that a rebuild reads.
type Answer struct {
	Pool     string // "" if the runtime was gone before it had one
	Runtime  string
	Request  string
	Tenant   string       // "" if the reply does not name it
	State    RuntimeState // released and Superseded are gone, PoolExhausted and NetworkExhausted are refused; "" says nothing of the runtime
	Binding  string
	Sequence int64
	Claimed  bool // this very request claimed the binding

	Generation int64 // of the claim, 0 if the reply does not name it
}

// Gathering derives the contents of pools and directory for a rebuild (rule 13d). Add the whole ledger first,
// then the labels from a live list, then the Shoots, all read after the seal (rule 13c): in another order, a
// source could miss an effect of the source before it. It is not safe for concurrent use.
type Gathering struct {
	residents [Buckets]map[string]resident // runtimes by bucket
	standings map[standing]*standing
	bindings  map[string]engine.Binding
	highest   map[string]int64 // sequence by pool, and by bucket
	claims    map[tenure]claimed
	names     map[string]*string // what Shoots name
	shoots    []lodging          // those of unknown runtimes, and further ones of a runtime
	waiting   map[string]bool    // runtimes of requests that wait
}

// lodging is a Shoot that names a binding.
type lodging struct{ runtime, binding string }

// resident is a runtime as its replies, and a Shoot, describe it. There may be a million, so what many of them have in
// common is kept once.
type resident struct {
	*standing
	request  string // as in Runtime
	sequence int64
	since    int64   // sequence of its last assignment
	shoot    *string // the binding that its Shoot names; nil without a Shoot
}

// standing is the part of a runtime's record that many others share: equal ones are kept once. The zero value is that of
// an unknown runtime.
type standing struct {
	pool      string // "" if the runtime was gone before it had one
	state     RuntimeState
	binding   string
	tenant    string
	confirmed bool
	origin    Origin
	last      tenancy // the last assignment: a deprovision may name another tenant, or none
}

var unknown = &standing{}

// set sets pool and record of a runtime: request and sequence in r, the rest in by.
func (r *resident) set(by *standing, pool string, rt Runtime) {
	r.request, r.sequence = rt.Request, rt.Sequence
	by.pool, by.state, by.binding, by.tenant, by.confirmed, by.origin = pool, rt.State, rt.Binding, rt.Tenant, rt.Confirmed, rt.Origin
}

func (r resident) runtime() Runtime {
	return Runtime{
		State: r.state, Binding: r.binding, Sequence: r.sequence, Request: r.request,
		Confirmed: r.confirmed, Origin: r.origin, Tenant: r.tenant,
	}
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
	by    int64 // sequence in the reply to the request that claimed, 0 if there is none
	first int64 // sequence of the first assignment under it
}

// NewGathering returns an empty Gathering.
func NewGathering() *Gathering {
	g := &Gathering{
		standings: map[standing]*standing{}, bindings: map[string]engine.Binding{}, highest: map[string]int64{},
		claims: map[tenure]claimed{}, names: map[string]*string{}, waiting: map[string]bool{},
	}
	for n := range g.residents {
		g.residents[n] = map[string]resident{}
	}
	return g
}

// resident returns what is known of a runtime, and whether something is.
func (g *Gathering) resident(id string) (resident, bool) {
	r, known := g.residents[bucketOf(id)][id]
	if !known {
		r.standing = unknown
	}
	return r, known
}

// put records what is known of a runtime by now.
func (g *Gathering) put(id string, r resident, s standing) {
	r.standing = once(g.standings, s)
	g.residents[bucketOf(id)][id] = r
}

// once returns a pointer to a value that equal values share.
func once[V comparable](kept map[V]*V, value V) *V {
	if known := kept[value]; known != nil {
		return known
	}
	kept[value] = &value
	return &value
}

// Answer adds a reply of the ledger; it ignores one without runtime or sequence. Of the replies about a
// runtime, the one with the highest sequence counts, not the newest one: a worker that paused may have
// published late. A runtime that was gone before it had a pool stays gone: the sequence of that reply is one of the
// directory, and no assignment follows it, except one from before a loss.
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
	r, _ := g.resident(a.Runtime)
	by := *r.standing
	if a.State == RuntimeAssigned {
		at := tenancy{a.Pool, a.Binding, a.Tenant}
		if a.Sequence >= r.since {
			by.last, r.since = at, a.Sequence
		}
		g.claim(tenure{at, a.Generation}, a)
	}
	stays := r.state == RuntimeGone && r.pool == "" && a.Pool != ""
	if !stays && (a.State == RuntimeGone && a.Pool == "" && r.pool != "" || a.after(r)) {
		r.set(&by, a.Pool, a.runtime())
	}
	g.put(a.Runtime, r, by)
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

// claimedAt returns the sequence of the decision that claimed a binding for its tenant, 0 if it is unknown.
// If the request that claimed was never answered, or its reply is no longer stored, it returns the sequence
// of the first assignment, which is not lower.
func (g *Gathering) claimedAt(of tenancy, generation int64) int64 {
	c := g.claims[tenure{of, generation}]
	if c == (claimed{}) {
		c = g.claims[tenure{of, 0}] // of a reply that names no generation
	}
	return cmp.Or(c.by, c.first)
}

// after reports whether the answer replaces the known record. Two replies can have one sequence: a release
// and the Superseded of the waiting request do, and a waiting reply to one request and the assignment by
// another request of the runtime may. Of these, one that makes the runtime gone counts more than an
// assignment, and an assignment more than the rest.
func (a Answer) after(known resident) bool {
	if a.Sequence != known.sequence {
		return a.Sequence > known.sequence
	}
	return weight(a.State, a.Binding) > weight(known.state, known.binding)
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

// runtime returns the runtime's record by the answer. A published assignment may have been read, so it is
// confirmed.
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

// Waits adds the runtime of a request that waits, for Compare. A rebuild does not need it: there the ledger
// says which requests wait.
func (g *Gathering) Waits(runtime string) { g.waiting[runtime] = true }

// Binding adds a binding as Gardener has it.
func (g *Gathering) Binding(b engine.Binding) { g.bindings[b.Name] = b }

// Shoot adds a Shoot. If the ledger has no assignment of its runtime, and its binding is known and of a pool,
// the Shoot counts as an assignment: its cluster existed before this service. A runtime that is gone stays
// gone, since no second deprovision would ever end it; its binding is not marked dirty while the Shoot
// exists.
func (g *Gathering) Shoot(s engine.Shoot) {
	if s.Binding == "" {
		return
	}
	id := RuntimeOf(s)
	r, known := g.resident(id)
	by := *r.standing
	b, listed := g.bindings[s.Binding]
	if listed && b.HyperscalerType != "" && r.state != RuntimeAssigned && r.state != RuntimeGone {
		tenant, pool := b.Tenant, b.Pool().Name()
		if b.Shared && engine.ValidID(s.Tenant) {
			tenant = s.Tenant
		}
		r.set(&by, pool, Runtime{
			State: RuntimeAssigned, Binding: b.Name, Sequence: g.highest[pool],
			Confirmed: true, Origin: Adopted, Tenant: tenant,
		})
		known = true
	}
	if !known || r.shoot != nil {
		g.shoots = append(g.shoots, lodging{id, s.Binding})
	} else {
		r.shoot = once(g.names, s.Binding)
	}
	if known {
		g.put(id, r, by)
	}
}

// RuntimeOf returns the id under which the runtime of a Shoot is counted: its runtime id if that is valid,
// else the Shoot's name. An event with an invalid runtime id is refused, so no event is about a runtime that
// is counted under a name instead.
func RuntimeOf(s engine.Shoot) string {
	if engine.ValidID(s.RuntimeID) {
		return s.RuntimeID
	}
	return s.Name
}

// Pools returns the names of the pools that the bindings belong to, sorted.
func (g *Gathering) Pools() []string {
	pools := map[string]bool{}
	for _, b := range g.bindings {
		if b.HyperscalerType != "" {
			pools[b.Pool().Name()] = true
		}
	}
	return slices.Sorted(maps.Keys(pools))
}

// Size returns the number of known runtimes.
func (g *Gathering) Size() int {
	size := 0
	for _, runtimes := range g.residents {
		size += len(runtimes)
	}
	return size
}

// Runtimes visits the runtimes that have, or had, a pool.
func (g *Gathering) Runtimes() iter.Seq2[string, Runtime] {
	return func(yield func(string, Runtime) bool) {
		for _, runtimes := range g.residents {
			for id, r := range runtimes {
				if r.pool != "" && !yield(id, r.runtime()) {
					return
				}
			}
		}
	}
}
