package account

import "github.com/hap-worker/hap-worker/engine/compact"

// resident is a runtime as its replies, and a Shoot, describe it.
type resident struct {
	standing
	kept
}

// kept is a resident in memory. There may be a million, so what many of them have in common is kept once.
type kept struct {
	request  compact.ID // as in Runtime
	sequence int64
	since    int64  // sequence of its last assignment
	stands   uint32 // number of its standing
	shoot    uint32 // number of the name of the binding that its Shoot names; 0 without a Shoot
	sights
}

// standing is the part of a runtime's record that many others share.
type standing struct {
	*condition
	at   *tenancy // its pool is "" if the runtime was gone before it had one
	last *tenancy // the last assignment: a deprovision may name another tenant, or none
}

// condition is the part of a runtime's record that has but a few values.
type condition struct {
	state     RuntimeState
	origin    Origin
	confirmed bool
}

// tenancy is a tenant on a binding of a pool.
type tenancy struct{ pool, binding, tenant string }

// nowhere is the tenancy, and unknown the standing, of a runtime of which nothing is known.
var (
	nowhere = &tenancy{}
	unknown = standing{&condition{}, nowhere, nowhere}
)

// resident returns what is known of a runtime, and whether something is.
func (g *Gathering) resident(id string) (resident, bool) {
	k, known := g.residents[bucketOf(id)][g.ids.Of(id)]
	return g.open(k), known
}

// open returns a resident with its standing.
func (g *Gathering) open(k kept) resident {
	if k.stands == 0 {
		return resident{unknown, k}
	}
	return resident{g.standings.Value(k.stands), k}
}

// keep records what is known of a runtime by now.
func (g *Gathering) keep(id string, r resident) {
	r.stands = g.standings.Number(r.standing)
	g.residents[bucketOf(id)][g.ids.Of(id)] = r.kept
}

// set sets pool and record of a runtime.
func (g *Gathering) set(r *resident, pool string, rt Runtime) {
	r.request, r.sequence = g.ids.Of(rt.Request), rt.Sequence
	r.at, r.condition = g.tenancy(pool, rt.Binding, rt.Tenant), g.condition(rt)
}

func (g *Gathering) runtime(r resident) Runtime {
	return Runtime{
		State: r.state, Binding: r.at.binding, Sequence: r.sequence, Request: g.ids.Text(r.request),
		Confirmed: r.confirmed, Origin: r.origin, Tenant: r.at.tenant,
	}
}

func (g *Gathering) condition(rt Runtime) *condition {
	return once(g.conditions, condition{rt.State, rt.Origin, rt.Confirmed})
}

// tenancy returns the kept tenancy, so that equal ones are equal pointers.
func (g *Gathering) tenancy(pool, binding, tenant string) *tenancy {
	if known := g.tenancies[tenancy{pool, binding, tenant}]; known != nil {
		return known
	}
	return once(g.tenancies, tenancy{g.names.Once(pool), g.names.Once(binding), g.names.Once(tenant)})
}

// once returns a pointer to a value that equal values share.
func once[V comparable](kept map[V]*V, value V) *V {
	if known := kept[value]; known != nil {
		return known
	}
	kept[value] = &value
	return &value
}
