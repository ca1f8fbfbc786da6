package account

import (
	"cmp"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
)

// Contents are what the pools and the directory are installed with. A pool's records and a bucket's places are made
// when they are asked for, so that not all of them are in memory at once.
type Contents struct {
	*Gathering
	ids     map[string][]string          // runtimes by pool
	use     map[string]map[string]*usage // by pool and binding
	emptied map[tenancy]bool             // a runtime left this binding by a deprovision
}

// Contents returns the Contents that follow from what was gathered. Nothing may be added to the Gathering afterwards.
func (g *Gathering) Contents() *Contents {
	c := &Contents{g, map[string][]string{}, map[string]map[string]*usage{}, map[tenancy]bool{}}
	for _, runtimes := range g.residents {
		for id, r := range runtimes {
			c.runtime(id, r)
		}
	}
	for name, b := range g.bindings {
		if b.HyperscalerType != "" {
			c.used(b.Pool().Name(), name) // even if it has no runtime
		}
	}
	return c
}

// Occupied returns the names of the pools that have a runtime on a binding, sorted.
func (c *Contents) Occupied() []string {
	var pools []string
	for pool, bindings := range c.use {
		for _, u := range bindings {
			if u.count > 0 {
				pools = append(pools, pool)
				break
			}
		}
	}
	slices.Sort(pools)
	return pools
}

// Pool returns what the pool is installed with.
func (c *Contents) Pool(name string) Snapshot {
	s := Snapshot{Sequence: c.highest[name], Bindings: map[string]Record{}, Runtimes: make(map[string]Runtime, len(c.ids[name]))}
	for _, id := range c.ids[name] {
		r, _ := c.resident(id)
		s.Runtimes[id] = c.left(r)
	}
	for binding, u := range c.use[name] {
		if rec, keep := c.record(name, binding, u); keep {
			s.Bindings[binding] = rec
		}
	}
	return s
}

// Bucket returns what a bucket of the directory is installed with, and whether there is a bucket with this name. A key
// that was written into Redis by hand may name one that does not exist.
func (c *Contents) Bucket(name string) (Directory, bool) {
	n := slices.Index(bucketNames[:], name)
	if n < 0 {
		return Directory{}, false
	}
	runtimes := c.residents[n]
	d := Directory{Sequence: c.highest[name], Places: make(map[string]Place, len(runtimes))}
	for id, r := range runtimes {
		place := Place{Pool: r.pool}
		if r.pool == "" {
			place = Place{Gone: true, Sequence: r.sequence}
		}
		d.Places[id] = place
	}
	return d, true
}

// usage summarizes the runtimes of a binding.
type usage struct {
	count  int
	tenant string // one that a runtime names; "" if none names one
	mixed  bool   // they name several tenants
}

func (c *Contents) used(pool, binding string) *usage {
	bindings := c.use[pool]
	if bindings == nil {
		bindings = map[string]*usage{}
		c.use[pool] = bindings
	}
	if bindings[binding] == nil {
		bindings[binding] = &usage{}
	}
	return bindings[binding]
}

func (c *Contents) runtime(id string, r resident) {
	if r.pool == "" {
		// Only the directory has it. If the ledger has an assignment from before a loss, it has left that account.
		c.emptied[r.last] = true
		return
	}
	c.ids[r.pool] = append(c.ids[r.pool], id)
	switch rt := c.left(r); {
	case rt.State == RuntimeAssigned:
		c.used(r.pool, rt.Binding).add(rt.Tenant)
	case rt.State == RuntimeGone && rt.Binding != "":
		c.emptied[tenancy{r.pool, rt.Binding, rt.Tenant}] = true
	}
}

// left returns the runtime's record. A gone runtime has the tenant of its last assignment and, if its reply names no
// binding, also the binding.
func (c *Contents) left(r resident) Runtime {
	rt, last := r.runtime(), r.last
	if rt.State == RuntimeGone {
		rt.Tenant = cmp.Or(last.tenant, rt.Tenant)
		if rt.Binding == "" && last.pool == r.pool {
			// A request of the runtime was superseded by a deprovision whose own reply is not stored yet.
			rt.Binding = last.binding
		}
	}
	return rt
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
func (c *Contents) record(pool, name string, u *usage) (Record, bool) {
	b, listed := c.bindings[name]
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
	case b.Tenant != "" && u.count == 0 && c.emptied[tenancy{pool, name, b.Tenant}]:
		rec.State = Draining
	case b.Tenant != "":
	case here && u.tenant != "" && !u.mixed:
		// Its label was removed while it has clusters. No other tenant may get it, and a tenant that may have
		// only one account must not get a second one. The next assignment writes the label again.
		rec.Tenant = u.tenant
	default:
		// No tenant may get it while it has runtimes that its label does not account for.
		return Record{State: Free, Count: u.count}, u.count > 0
	}
	rec.Claimed = c.claimedAt(tenancy{pool, name, rec.Tenant}, b.Generation)
	return rec, true
}
