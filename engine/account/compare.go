package account

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hap-worker/hap-worker/engine/compact"
)

// Compare compares the records in Redis, those of the built pools and of the directory, with what was
// gathered. It returns the drifts in the order of pools, bindings and runtimes.
func (f *Found) Compare() []Drift {
	c := comparison{Found: f, lodged: map[compact.ID][]uint32{}, on: usages{}}
	for _, s := range f.shoots {
		c.lodged[s.runtime] = append(c.lodged[s.runtime], s.binding)
	}
	for _, runtimes := range f.residents {
		for id, k := range runtimes {
			c.known(id, c.open(k))
		}
	}
	for pool, p := range f.pools {
		if p.built {
			c.others(pool, p)
		}
	}
	c.everyBinding()
	slices.SortFunc(c.drifts, func(a, b Drift) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Binding, b.Binding),
			cmp.Compare(a.Runtime, b.Runtime), cmp.Compare(a.Kind, b.Kind))
	})
	return c.drifts
}

type comparison struct {
	*Found
	lodged map[compact.ID][]uint32 // by runtime: the bindings of Shoots that are not in its resident
	on     usages                  // from the runtimes in Redis
	drifts []Drift
}

// note adds a drift of a pool. The drift has everything but the kind, the pool, the message, and the records of the
// binding that it names.
func (c *comparison) note(pool string, kind DriftKind, d Drift, format string, args ...any) {
	d.Kind, d.Pool, d.Message = kind, pool, fmt.Sprintf(format, args...)
	if d.Binding != "" {
		d.Record, d.Should = c.has(pool, d.Binding), c.should(pool, d.Binding)
		if b, listed := c.bindings[d.Binding]; listed {
			d.Label = b.label(d.Binding)
		}
	}
	if d.Wanted.Binding != "" {
		d.Should = c.should(pool, d.Wanted.Binding)
	}
	c.drifts = append(c.drifts, d)
}

// has returns the binding's record in Redis, a free one if there is none.
func (c *comparison) has(pool, binding string) Record {
	if p := c.pools[pool]; p != nil {
		if rec, known := p.bindings[binding]; known {
			return rec
		}
	}
	return Record{State: Free}
}

// should returns the record that a rebuild would make of the binding, a free one if it would make none.
func (c *comparison) should(pool, binding string) Record {
	if u := c.use[pool][binding]; u != nil {
		if rec, keep := c.record(pool, binding, u); keep {
			return rec
		}
	}
	return Record{State: Free}
}

// known compares a runtime that the sources know with its record in its pool.
func (c *comparison) known(id compact.ID, r resident) {
	p := c.pools[r.at.pool]
	if p == nil || !p.built {
		return
	}
	if s, found := c.foundOf(r.kept); found && s.state == RuntimeAssigned && s.at == r.at && r.state == RuntimeAssigned &&
		r.placed && len(c.lodged[id]) == 0 && (r.shoot == 0 || c.names.Text(r.shoot) == r.at.binding) {
		c.on.of(r.at.pool, r.at.binding).add(r.at.tenant) // as all but a few
		return
	}
	rt := c.in(r.at.pool, id, r)
	if r.found != 0 {
		c.inRedis(r.at.pool, id, rt)
	}
	if wanted := c.left(r); wanted.State == RuntimeAssigned {
		c.missing(r.at.pool, c.ids.Text(id), wanted, rt, c.placeOf(id, r))
	}
}

// others compares a pool's sequence, and its runtimes that differ from the ledger.
func (c *comparison) others(name string, p *foundPool) {
	if highest := c.highest[name]; p.sequence < highest {
		c.note(name, SequenceBehind, Drift{Highest: highest}, "Redis is at number %d, the ledger at %d", p.sequence, highest)
	}
	for id, rt := range p.others {
		c.inRedis(name, id, rt)
	}
}

// inRedis compares a runtime that Redis has with the sources.
func (c *comparison) inRedis(pool string, short compact.ID, rt Runtime) {
	id := c.ids.Text(short)
	r, known := c.resident(id)
	place, d := c.placeOf(short, r), Drift{Runtime: id, Entry: rt}
	switch {
	case rt.State == RuntimeAssigned:
		c.on.of(pool, rt.Binding).add(rt.Tenant)
		c.placed(pool, d, place)
		for _, shoot := range c.lodged[short] {
			c.elsewhere(pool, d, shoot)
		}
		if r.shoot != 0 {
			c.elsewhere(pool, d, r.shoot)
		}
		c.assigned(pool, d, r, known)
	case rt.State == RuntimeWaiting && !c.waiting[id]:
		c.note(pool, WaitingUnknown, d, "waits by number %d, and no request of it waits", rt.Sequence)
	case rt.State == RuntimeWaiting && place.Sequence > rt.Sequence && place.Pool != pool:
		c.note(pool, WaitingUnknown, d, "waits by number %d, and has gone to pool %s since", rt.Sequence, place.Pool)
	}
}

// placed checks the place of an assigned runtime.
func (c *comparison) placed(pool string, d Drift, place Place) {
	on := d.Entry.Binding
	switch {
	case place == Place{}:
		c.note(pool, PlaceMissing, d, "assigned to %s, the directory does not have it", on)
	case place.Gone:
		c.note(pool, PlaceWrong, d, "assigned to %s, the directory has it as gone", on)
	case place.Pool != pool:
		c.note(pool, PlaceWrong, d, "assigned to %s, the directory has it in pool %q", on, place.Pool)
	}
}

// elsewhere checks the binding that the Shoot of an assigned runtime names.
func (c *comparison) elsewhere(pool string, d Drift, shoot uint32) {
	if d.Binding = d.Entry.Binding; d.Binding != c.names.Text(shoot) {
		c.note(pool, ShootElsewhere, d, "assigned to %s, its Shoot names %s", d.Binding, c.names.Text(shoot))
	}
}

// assigned checks an assigned runtime against what is known of it.
func (c *comparison) assigned(pool string, d Drift, r resident, known bool) {
	rt := d.Entry
	d.Binding = rt.Binding
	switch at := r.at; {
	case known && r.state == RuntimeGone && (at.pool == "" || r.sequence > rt.Sequence): // without a pool, r.sequence is a number of the bucket
		c.note(pool, RuntimeGoneAlready, d, "released in the ledger by number %d, Redis has it assigned by %d", r.sequence, rt.Sequence)
	case known && r.state == RuntimeAssigned && at.binding == rt.Binding:
		if at.pool != pool {
			c.note(pool, PoolDiffers, d, "in pool %s by the ledger", at.pool)
		}
	case known && r.state == RuntimeAssigned:
		if r.sequence > rt.Sequence && at.pool == pool && r.origin != Adopted {
			d.Wanted = c.runtime(r)
		}
		d.Lacking = at.binding
		elsewhere := fmt.Sprintf("in the ledger to %s by %d", at.binding, r.sequence)
		if r.origin == Adopted {
			elsewhere = fmt.Sprintf("its Shoot names %s, and the ledger has no assignment", at.binding)
		}
		c.note(pool, RuntimeElsewhere, d, "assigned to %s by number %d, %s", rt.Binding, rt.Sequence, elsewhere)
	case rt.Origin == Adopted:
		if r.shoot == 0 && len(c.lodged[c.ids.Of(d.Runtime)]) == 0 {
			c.note(pool, ShootGone, d, "it was read from a Shoot, which is gone")
		}
	default:
		c.note(pool, RuntimeUnknown, d, "assigned to %s by number %d, the ledger does not have that", rt.Binding, rt.Sequence)
	}
}

// missing notes a runtime that is assigned by the ledger, or by its Shoot, but not in the pool in Redis, which has rt.
func (c *comparison) missing(pool, id string, wanted, rt Runtime, place Place) {
	d := Drift{Binding: wanted.Binding, Runtime: id, Lacking: wanted.Binding, Entry: rt}
	if rt.State == RuntimeAssigned || rt.State == RuntimeGone && wanted.Origin == Adopted {
		return // assigned checks it; or the runtime is gone, and its Shoot is about to be deleted
	}
	if place.Gone && wanted.Origin == Adopted {
		return
	}
	if rt.Sequence <= wanted.Sequence || wanted.Origin == Adopted {
		d.Wanted = wanted
	}
	if wanted.Origin == Adopted {
		c.note(pool, ShootUnknown, d, "its Shoot is on %s, Redis has it %s", wanted.Binding, said(rt))
		return
	}
	c.note(pool, RuntimeMissing, d, "assigned to %s in the ledger by number %d, Redis has it %s", wanted.Binding, wanted.Sequence, said(rt))
}

func said(rt Runtime) string {
	if rt.State == "" {
		return "not at all"
	}
	return fmt.Sprintf("%s by number %d", rt.State, rt.Sequence)
}
