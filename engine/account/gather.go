package account

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/compact"
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
	ids        compact.IDs
	names      compact.Texts                // of bindings, tenants and pools
	residents  [Buckets]map[compact.ID]kept // runtimes by bucket
	tenancies  map[tenancy]*tenancy
	conditions map[condition]*condition
	standings  compact.Values[standing]
	bindings   map[string]labelled
	highest    map[string]int64 // sequence by pool, and by bucket
	claims     map[tenure]claimed
	shoots     []lodging       // those that may be adopted, those of unknown runtimes, and further ones of a runtime
	waiting    map[string]bool // runtimes of requests that wait
}

// lodging is a Shoot that names a binding.
type lodging struct {
	runtime         compact.ID
	binding, tenant uint32 // numbers of names
}

// labelled is the part of a binding in Gardener that a comparison needs.
type labelled struct {
	tenant     string
	pool       string
	generation int64
	dirty      bool
	typed      bool // it has a hyperscaler type, so its pool exists
	shared     bool // by its own labels
}

// label returns the label of a binding.
func (b labelled) label(name string) Label {
	return Label{Binding: name, Tenant: b.tenant, Dirty: b.dirty, Generation: b.generation}
}

// tenure is one claim of a tenant.
type tenure struct {
	*tenancy
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
		tenancies: map[tenancy]*tenancy{*nowhere: nowhere}, conditions: map[condition]*condition{},
		bindings: map[string]labelled{}, highest: map[string]int64{}, claims: map[tenure]claimed{}, waiting: map[string]bool{},
	}
	for n := range g.residents {
		g.residents[n] = map[compact.ID]kept{}
	}
	return g
}

// Answer adds a reply of the ledger; it ignores one without runtime or sequence. Fate says which of the replies about a
// runtime counts.
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
	if !a.tells() {
		return
	}
	r, _ := g.resident(a.Runtime)
	replaces := a.replaces(r.fate())
	if a.State == RuntimeAssigned {
		at := g.tenancy(a.Pool, a.Binding, a.Tenant)
		if a.Sequence >= r.since {
			r.last, r.since = at, a.Sequence
		}
		g.claim(tenure{at, a.Generation}, a)
	}
	if replaces {
		g.set(&r, a.Pool, a.runtime())
	}
	g.keep(a.Runtime, r)
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
	at := g.tenancies[of]
	c := g.claims[tenure{at, generation}]
	if c == (claimed{}) {
		c = g.claims[tenure{at, 0}] // of a reply that names no generation
	}
	return cmp.Or(c.by, c.first)
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

// Waits adds the runtime of a request that waits, for Found.Compare. A rebuild does not need it: there the ledger
// says which requests wait.
func (g *Gathering) Waits(runtime string) { g.waiting[runtime] = true }

// Binding adds a binding as Gardener has it.
func (g *Gathering) Binding(b engine.Binding) {
	g.bindings[g.names.Once(b.Name)] = labelled{
		tenant: g.names.Once(b.Tenant), pool: g.names.Once(b.Pool().Name()), generation: b.Generation,
		dirty: b.Dirty, typed: b.HyperscalerType != "", shared: b.Shared,
	}
}

// Shoot adds a Shoot. If the ledger has no assignment of its runtime, and its binding is known and of a pool,
// the Shoot counts as an assignment: its cluster existed before this service. A runtime that is gone stays
// gone, since no second deprovision would ever end it; its binding is not marked dirty while the Shoot
// exists.
func (g *Gathering) Shoot(s engine.Shoot) {
	if s.Binding == "" {
		return
	}
	id := RuntimeOf(s)
	r, _ := g.resident(id)
	binding := g.names.Number(s.Binding)
	if r.shoot == 0 && !r.adoptable() {
		r.shoot = binding
		g.keep(id, r)
		return
	}
	g.shoots = append(g.shoots, lodging{g.ids.Of(id), binding, g.names.Number(s.Tenant)})
}

// NoShoots forgets the Shoots, which are to be read again.
func (g *Gathering) NoShoots() {
	g.shoots = nil
	for _, runtimes := range g.residents {
		for id, r := range runtimes {
			if r.shoot != 0 {
				r.shoot = 0
				runtimes[id] = r
			}
		}
	}
}

func (r resident) adoptable() bool { return r.state != RuntimeAssigned && r.state != RuntimeGone }

// adopt assigns the runtimes that only Shoots place. It keeps the Shoots of unknown runtimes, and further ones of a
// runtime.
func (g *Gathering) adopt() {
	others := g.shoots[:0]
	for _, s := range g.shoots {
		id := g.ids.Text(s.runtime)
		r, known := g.resident(id)
		binding := g.names.Text(s.binding)
		b := g.bindings[binding]
		if b.typed && r.adoptable() {
			tenant := b.tenant
			if of := g.names.Text(s.tenant); b.shared && engine.ValidID(of) {
				tenant = of
			}
			g.set(&r, b.pool, Runtime{
				State: RuntimeAssigned, Binding: binding, Sequence: g.highest[b.pool],
				Confirmed: true, Origin: Adopted, Tenant: tenant,
			})
			known = true
		}
		if known && r.shoot == 0 {
			r.shoot = s.binding
		} else {
			others = append(others, s)
		}
		if known {
			g.keep(id, r)
		}
	}
	g.shoots = others
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
		if b.typed {
			pools[b.pool] = true
		}
	}
	return slices.Sorted(maps.Keys(pools))
}

// Size returns the number of known runtimes, with those that only Shoots place.
func (g *Gathering) Size() int {
	g.adopt()
	size := 0
	for _, runtimes := range g.residents {
		size += len(runtimes)
	}
	return size
}
