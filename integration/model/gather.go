package main

import (
	"maps"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// gathered is the input that a rebuild has read.
type gathered struct {
	replies [maxEvents]reply
	labels  [maxBindings]label
	shoots  [maxRuntimes]uint8
}

// gatherings numbers all inputs of rebuilds, so that a state stores only the number.
type gatherings struct {
	redis   *redis
	ids     map[gathered]uint16
	all     []gathered
	derived map[uint16]derived
}

// derived is the result of a rebuild, which is installed.
type derived struct {
	snapshots map[string]account.Snapshot
	directory account.Directory
}

func newGatherings(r *redis) *gatherings {
	g := &gatherings{redis: r, ids: map[gathered]uint16{}, derived: map[uint16]derived{}}
	g.id(gathered{}) // 0: nothing is read yet
	return g
}

func (g *gatherings) id(read gathered) uint16 {
	id, known := g.ids[read]
	if !known {
		if id = uint16(len(g.all)); int(id) != len(g.all) {
			panic("a rebuild can read more than 65536 different things here: explore a smaller configuration")
		}
		g.ids[read], g.all = id, append(g.all, read)
	}
	return id
}

// derived derives the result (rule 13d), by the code that workers rebuild with.
func (m *model) derived(id uint16) derived {
	d, known := m.found.derived[id]
	if known {
		return d
	}
	g := m.gathering(m.found.all[id])
	contents := g.Contents()
	directory, _ := contents.Bucket(account.BucketName(0))
	d = derived{map[string]account.Snapshot{}, directory}
	for p := range uint8(len(poolNames)) {
		name := m.poolName(p)
		d.snapshots[name] = contents.Pool(name)
	}
	m.leaveOut(d)
	m.found.derived[id] = d
	return d
}

// gathering returns an account.Gathering of the input.
func (m *model) gathering(read gathered) *account.Gathering {
	g := account.NewGathering()
	for e, r := range read.replies {
		if r.status > sealed && m.events[e].kind != release {
			g.Answer(m.answer(e, r))
		}
	}
	for b := range uint8(m.bindings) {
		l := read.labels[b]
		if l.deleted {
			continue
		}
		claimedIn := ""
		if l.at() != l.pool {
			claimedIn = poolNames[l.at()]
		}
		g.Binding(engine.Binding{
			Name: bindingName(b), HyperscalerType: poolNames[l.pool], Shared: m.shared, ClaimedIn: claimedIn, Tenant: tenantName(l.tenant), Dirty: l.dirty,
			Generation: int64(l.generation), Internal: m.internalBinding(b), Cordoned: l.cordoned,
		})
	}
	for r, on := range read.shoots {
		if on > 0 && on != gone {
			g.Shoot(engine.Shoot{Name: m.redis.ids[r], RuntimeID: m.redis.ids[r], Binding: bindingName(on - 1)})
		}
	}
	return g
}

// leaveOut changes the result of a rebuild to what it is without the rules that are switched off.
func (m *model) leaveOut(d derived) {
	for pool, s := range d.snapshots {
		for name, rec := range s.Bindings {
			rec.Confirmed = rec.Confirmed || m.off[ruleUnconfirmed]
			s.Bindings[name] = rec
		}
		runtimes := maps.Collect(s.Runtimes) // now, and not again in each state
		maps.DeleteFunc(runtimes, func(_ string, rt account.Runtime) bool { return m.off[ruleTombs] && rt.State == account.RuntimeGone })
		s.Runtimes = maps.All(runtimes)
		d.snapshots[pool] = s
	}
	maps.DeleteFunc(d.directory.Places, func(_ string, p account.Place) bool { return m.off[ruleTombs] && p.Gone })
}

// poolName is the full name, as in replies and snapshots.
func (m *model) poolName(p uint8) string {
	if m.shared {
		return poolNames[p] + "+shared"
	}
	return poolNames[p]
}

func (m *model) answer(e int, r reply) account.Answer {
	v := m.events[e]
	a := account.Answer{
		Runtime: m.redis.ids[v.of], Request: requestName(uint8(e)), Tenant: tenantName(m.tenants[v.of]), Sequence: int64(r.sequence),
	}
	if r.pool > 0 {
		a.Pool = m.poolName(r.pool - 1)
	}
	if r.binding > 0 {
		a.Binding = bindingName(r.binding - 1)
	}
	switch r.status {
	case assigned:
		a.State = account.RuntimeAssigned
	case released, superseded:
		a.State = account.RuntimeGone
	case waiting:
		a.State = account.RuntimeWaiting
	case exhausted:
		a.State = account.RuntimeRefused
	}
	return a
}

// writeToken begins the rebuild of places.
func (r *redis) writeToken(s *state, places, token uint8) {
	name := epochName(token)
	for p := range s.pools {
		if has(places, uint8(p)) && r.thaw(s.pools[p]).BeginRebuild(name, time.Time{}, 0) {
			s.pools[p].token = token
		}
	}
	if has(places, directoryPlace) && thawBucket(r, s.bucket).BeginRebuild(name, time.Time{}, 0) {
		s.bucket.token = token
	}
}

// directory runs the scripts of the directory on account.Bucket.
type directory struct{ redis *redis }

func thawBucket(r *redis, b bucket) *account.Bucket {
	machine := account.NewBucket()
	if b.token != 0 {
		machine.BeginRebuild(epochName(b.token), time.Time{}, 0)
	}
	if !b.built() {
		return machine
	}
	d := account.Directory{Sequence: int64(b.sequence), Places: map[string]account.Place{}}
	for n, at := range b.places {
		switch at.pool {
		case 0:
		case gone:
			d.Places[r.ids[n]] = account.Place{Gone: true, Sequence: int64(at.sequence)}
		default:
			d.Places[r.ids[n]] = account.Place{Pool: poolNames[at.pool-1]}
		}
	}
	machine.BeginRebuild(epochName(b.epoch), time.Time{}, 0)
	machine.Install(epochName(b.epoch), d)
	return machine
}

func (d *directory) freeze(machine *account.Bucket, token uint8) bucket {
	status := machine.Status()
	b := bucket{site: site{epoch: epochIndex(status.Epoch), token: token, sequence: uint8(status.Sequence)}}
	for n, id := range d.redis.ids {
		if at, known := machine.Place(id); known {
			b.places[n] = placeOf(at)
		}
	}
	return b
}

func placeOf(at account.Place) place {
	if at.Gone {
		return place{gone, uint8(at.Sequence)}
	}
	return place{pool: at.Pool[0] - 'p' + 1}
}

func (d *directory) locate(b *bucket, runtime, pool uint8) (at place, notBuilt bool) {
	machine := thawBucket(d.redis, *b)
	found, err := machine.Locate(d.redis.ids[runtime], poolNames[pool])
	if err != nil {
		return place{}, true
	}
	*b = d.freeze(machine, b.token)
	return placeOf(found), false
}

// depart returns the runtime's place. For an unknown runtime it records that it is gone, unless silently is set.
func (d *directory) depart(b *bucket, runtime uint8, silently bool) (at place, notBuilt bool) {
	machine := thawBucket(d.redis, *b)
	if _, known := machine.Place(d.redis.ids[runtime]); silently && b.built() && !known {
		return place{}, false
	}
	found, err := machine.Depart(d.redis.ids[runtime])
	if err != nil {
		return place{}, true
	}
	*b = d.freeze(machine, b.token)
	return placeOf(found), false
}

func (d *directory) look(b bucket, runtime uint8) (at place, known, notBuilt bool) {
	return b.places[runtime], b.places[runtime].pool != 0, !b.built()
}

func (d *directory) install(b *bucket, token uint8, from account.Directory) bool {
	machine := thawBucket(d.redis, *b)
	if !machine.Install(epochName(token), from) || b.built() {
		return false
	}
	*b = d.freeze(machine, 0)
	return true
}
