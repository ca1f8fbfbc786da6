package account

import (
	"cmp"

	"github.com/hap-worker/hap-worker/engine"
)

// Snapshots returns the snapshot that each pool is installed with, by the pool's name. It has no entry for a
// pool of which nothing is known.
func (g *Gathering) Snapshots() map[string]Snapshot {
	d := derivation{
		Gathering: g, out: map[string]Snapshot{},
		use: map[string]map[string]*usage{}, emptied: map[tenancy]bool{},
	}
	for place := range g.highest {
		if !IsBucket(place) {
			d.pool(place) // its sequence continues, even if nothing is left in it
		}
	}
	for id, r := range g.runtimes {
		d.runtime(id, r)
	}
	for name, b := range g.bindings {
		if b.HyperscalerType != "" {
			d.used(b.Pool().Name(), name) // even if it has no runtime
		}
	}
	for pool, bindings := range d.use {
		for name, u := range bindings {
			if rec, keep := d.record(pool, name, u); keep {
				d.pool(pool).Bindings[name] = rec
			}
		}
	}
	return d.out
}

// derivation builds the snapshots from what was gathered.
type derivation struct {
	*Gathering
	out     map[string]Snapshot
	use     map[string]map[string]*usage // by pool and binding
	emptied map[tenancy]bool             // there is a runtime that left this binding by a deprovision
}

// usage summarizes the runtimes of a binding.
type usage struct {
	count  int
	tenant string // the last one that a runtime names; "" if none names one
	mixed  bool   // they name several tenants
}

func (d *derivation) pool(name string) Snapshot {
	s, known := d.out[name]
	if !known {
		s = Snapshot{Sequence: d.highest[name], Bindings: map[string]Record{}, Runtimes: map[string]Runtime{}}
		d.out[name] = s
	}
	return s
}

func (d *derivation) used(pool, binding string) *usage {
	bindings := d.use[pool]
	if bindings == nil {
		bindings = map[string]*usage{}
		d.use[pool] = bindings
	}
	if bindings[binding] == nil {
		bindings[binding] = &usage{}
	}
	return bindings[binding]
}

func (d *derivation) runtime(id string, r *resident) {
	if r.pool == "" {
		// Only the directory knows it. If a loss has overtaken its assignment, it has left that account.
		d.emptied[r.last] = true
		return
	}
	rt := r.Runtime
	if rt.State == RuntimeGone {
		rt.Tenant = cmp.Or(r.last.tenant, rt.Tenant)
		if rt.Binding == "" && r.last.pool == r.pool {
			// A request of the runtime was superseded by a deprovision whose own reply is not stored yet.
			rt.Binding = r.last.binding
		}
	}
	d.pool(r.pool).Runtimes[id] = rt
	switch {
	case rt.State == RuntimeAssigned:
		d.used(r.pool, rt.Binding).add(rt.Tenant)
	case rt.State == RuntimeGone && rt.Binding != "":
		d.emptied[tenancy{r.pool, rt.Binding, rt.Tenant}] = true
	}
}

func (u *usage) add(tenant string) {
	u.count++
	u.mixed = u.mixed || tenant != "" && u.tenant != "" && tenant != u.tenant
	if tenant != "" {
		u.tenant = tenant
	}
}

// record returns a binding's record, made from its label and its runtimes, and whether it needs one. In a
// dedicated pool the record is unconfirmed: a worker that began before the loss may still write the label.
// The next assignment writes the new epoch on the label first; a late write then fails (rule 4).
//
// A binding that belongs to another pool by now is still counted in this pool as long as it has runtimes
// here.
func (d *derivation) record(pool, name string, u *usage) (Record, bool) {
	b, listed := d.bindings[name]
	here := listed && b.Pool().Name() == pool
	if !here && u.count == 0 {
		return Record{}, false
	}
	if engine.ParsePool(pool).Shared {
		return Record{State: InUse, Confirmed: true, Count: u.count}, u.count > 0
	}
	rec := Record{State: InUse, Tenant: b.Tenant, Generation: b.Generation, Count: u.count}
	switch {
	case b.Dirty:
		rec.State = Dirtying
	case b.Tenant != "" && u.count == 0 && d.emptied[tenancy{pool, name, b.Tenant}]:
		rec.State = Draining
	case b.Tenant != "":
	case here && u.tenant != "" && !u.mixed:
		// Its label was removed while it has clusters. No other tenant may get it, and its tenant must not
		// get a second one. The next assignment writes the label again.
		rec.Tenant = u.tenant
	default:
		// No tenant may get it while it has runtimes that its label does not account for.
		return Record{State: Free, Count: u.count}, u.count > 0
	}
	rec.Claimed = d.claimedAt(tenancy{pool, name, rec.Tenant}, b.Generation)
	return rec, true
}
