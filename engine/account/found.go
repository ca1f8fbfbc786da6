package account

import "github.com/hap-worker/hap-worker/engine/compact"

// Found are the records of Redis, for a comparison with what was gathered. There may be a million runtimes: one
// that Redis and the ledger have alike takes a number. Add all that Redis has, and call Built for each pool that is
// built. It is not safe for concurrent use.
type Found struct {
	*Contents
	pools  map[string]*foundPool
	places map[compact.ID]Place // those that differ from what would be installed
}

// foundPool are the records of a pool.
type foundPool struct {
	built    bool
	sequence int64
	bindings map[string]Record
	others   map[compact.ID]Runtime // those that differ from the ledger in pool, request or sequence
}

// sights are what Redis has of a runtime.
type sights struct {
	placed bool   // the directory has it as a rebuild would install it
	found  uint32 // number of the standing that it has in its pool under the same request and sequence; 0 if it is not there, or differs
}

// Found returns a Found without records. Nothing may be added to the Gathering afterwards.
func (g *Gathering) Found() *Found {
	return &Found{g.Contents(), map[string]*foundPool{}, map[compact.ID]Place{}}
}

func (f *Found) pool(name string) *foundPool {
	p := f.pools[name]
	if p == nil {
		p = &foundPool{bindings: map[string]Record{}, others: map[compact.ID]Runtime{}}
		f.pools[f.names.Once(name)] = p
	}
	return p
}

// AddRecord adds a binding's record of a pool.
func (f *Found) AddRecord(pool, binding string, rec Record) {
	rec.State, rec.Tenant = State(f.names.Once(string(rec.State))), f.names.Once(rec.Tenant)
	f.pool(pool).bindings[f.names.Once(binding)] = rec
}

// AddRuntime adds a runtime's record of a pool.
func (f *Found) AddRuntime(pool, id string, rt Runtime) {
	p := f.pool(pool)
	short, request := f.ids.Of(id), f.ids.Of(rt.Request)
	r, known := f.resident(id)
	if known && r.at.pool == pool && r.request == request && r.sequence == rt.Sequence {
		s := standing{f.condition(rt), f.tenancy(pool, rt.Binding, rt.Tenant), nowhere}
		if s.at == r.at {
			s.last = r.last // so that it often is the one that the ledger made
		}
		r.found = f.standings.Number(s)
		f.keep(id, r)
		delete(p.others, short) // Redis may list a record twice
		return
	}
	rt.State, rt.Origin = RuntimeState(f.names.Once(string(rt.State))), Origin(f.names.Once(string(rt.Origin)))
	rt.Binding, rt.Tenant, rt.Request = f.names.Once(rt.Binding), f.names.Once(rt.Tenant), f.ids.Text(request)
	p.others[short] = rt
	if known && r.at.pool == pool && r.found != 0 {
		r.found = 0
		f.keep(id, r)
	}
}

// AddPlace adds an entry of the directory.
func (f *Found) AddPlace(id string, place Place) {
	short := f.ids.Of(id)
	r, known := f.resident(id)
	if known {
		r.placed = r.place() == place
		f.keep(id, r)
	}
	if r.placed {
		delete(f.places, short)
		return
	}
	place.Pool = f.names.Once(place.Pool)
	f.places[short] = place
}

// Built says that the pool is built, and which sequence it has. What was added of other pools does not count.
func (f *Found) Built(pool string, sequence int64) {
	p := f.pool(pool)
	p.built, p.sequence = true, sequence
}

// Counts returns how many bindings have a record, and how many runtimes are assigned, in the pools that are built.
func (f *Found) Counts() (bindings, assigned int) {
	for _, p := range f.pools {
		if p.built {
			bindings += len(p.bindings)
		}
	}
	f.each(func(_ compact.ID, state RuntimeState, _ string) {
		if state == RuntimeAssigned {
			assigned++
		}
	})
	return bindings, assigned
}

// each visits the runtimes of the pools that are built.
func (f *Found) each(visit func(id compact.ID, state RuntimeState, binding string)) {
	for _, runtimes := range f.residents {
		for id, k := range runtimes {
			if s, found := f.foundOf(k); found && f.pools[s.at.pool].built {
				visit(id, s.state, s.at.binding)
			}
		}
	}
	for _, p := range f.pools {
		for id, rt := range p.others {
			if p.built {
				visit(id, rt.State, rt.Binding)
			}
		}
	}
}

// in returns the record in a pool of a runtime that the sources have as r; the zero Runtime if there is none, or the
// pool is not built.
func (f *Found) in(pool string, id compact.ID, r resident) Runtime {
	p := f.pools[pool]
	switch {
	case p == nil || !p.built:
		return Runtime{}
	case r.found != 0 && r.at.pool == pool:
		r.standing = f.standings.Value(r.found)
		return f.runtime(r)
	default:
		return p.others[id]
	}
}

// placeOf returns the entry in the directory of a runtime that the sources have as r; the zero Place for none.
func (f *Found) placeOf(id compact.ID, r resident) Place {
	if r.placed {
		return r.place()
	}
	return f.places[id]
}

// foundOf returns what the pool in Redis has of a runtime that the sources have as k, and whether it has it.
func (f *Found) foundOf(k kept) (standing, bool) {
	if k.found == 0 {
		return standing{}, false
	}
	return f.standings.Value(k.found), true
}

// Lodger is a runtime that Redis has on a binding, or that has left it.
type Lodger struct{ Runtime, Binding string }

// On returns the runtimes of the bindings that the drifts name.
func (f *Found) On(drifts []Drift) []Lodger {
	named := map[string]bool{}
	for _, d := range drifts {
		named[d.Binding] = d.Binding != ""
	}
	var on []Lodger
	f.each(func(id compact.ID, _ RuntimeState, binding string) {
		if named[binding] {
			on = append(on, Lodger{f.ids.Text(id), binding})
		}
	})
	return on
}
