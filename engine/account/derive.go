package account

import (
	"cmp"
	"iter"
	"slices"
	"sync"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/compact"
)

// Contents are what the pools and the directory are installed with. A pool's records and a bucket's places are made
// when they are asked for, so that not all of them are in memory at once.
type Contents struct {
	*Gathering
	pooled  func() map[string][]compact.ID // runtimes by pool
	use     usages
	emptied map[tenancy]bool // a runtime left this binding by a deprovision
}

// Contents returns the Contents that follow from what was gathered. Nothing may be added to the Gathering afterwards.
func (g *Gathering) Contents() *Contents {
	g.adopt()
	c := &Contents{Gathering: g, use: usages{}, emptied: map[tenancy]bool{}}
	c.pooled = sync.OnceValue(c.byPool)
	for _, runtimes := range g.residents {
		for _, k := range runtimes {
			c.count(c.open(k))
		}
	}
	for name, b := range g.bindings {
		if b.typed {
			c.use.of(b.pool, name) // even if it has no runtime
		}
	}
	return c
}

// byPool returns the ids of the runtimes of each pool.
func (c *Contents) byPool() map[string][]compact.ID {
	ids := map[string][]compact.ID{}
	for _, runtimes := range c.residents {
		for id, k := range runtimes {
			if r := c.open(k); r.at.pool != "" {
				ids[r.at.pool] = append(ids[r.at.pool], id)
			}
		}
	}
	return ids
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
	s := Snapshot{Sequence: c.highest[name], Bindings: map[string]Record{}, Runtimes: c.runtimesOf(name)}
	for binding, u := range c.use[name] {
		if rec, keep := c.record(name, binding, u); keep {
			s.Bindings[binding] = rec
		}
	}
	return s
}

// runtimesOf visits the runtimes of a pool.
func (c *Contents) runtimesOf(pool string) iter.Seq2[string, Runtime] {
	return func(yield func(string, Runtime) bool) {
		for _, short := range c.pooled()[pool] {
			id := c.ids.Text(short)
			if r, _ := c.resident(id); !yield(id, c.left(r)) {
				return
			}
		}
	}
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
	for id, k := range runtimes {
		d.Places[c.ids.Text(id)] = c.open(k).place()
	}
	return d, true
}

// place returns the runtime's entry in the directory.
func (r resident) place() Place {
	if r.at.pool == "" {
		return Place{Gone: true, Sequence: r.sequence}
	}
	return Place{Pool: r.at.pool}
}

// usages are those of bindings, by pool and binding.
type usages map[string]map[string]*usage

// usage summarizes the runtimes of a binding.
type usage struct {
	count  int
	tenant string // one that a runtime names; "" if none names one
	mixed  bool   // they name several tenants
}

// of returns the usage of a binding in a pool. It adds an empty one if there is none.
func (u usages) of(pool, binding string) *usage {
	bindings := u[pool]
	if bindings == nil {
		bindings = map[string]*usage{}
		u[pool] = bindings
	}
	if bindings[binding] == nil {
		bindings[binding] = &usage{}
	}
	return bindings[binding]
}

// count adds a runtime to the usage of its binding.
func (c *Contents) count(r resident) {
	if r.at.pool == "" {
		// Only the directory has it. If the ledger has an assignment from before a loss, it has left that account.
		c.emptied[*r.last] = true
		return
	}
	switch at := r.leaves(); {
	case r.state == RuntimeAssigned:
		c.use.of(at.pool, at.binding).add(at.tenant)
	case r.state == RuntimeGone && at.binding != "":
		c.emptied[at] = true
	}
}

// left returns the runtime's record.
func (c *Contents) left(r resident) Runtime {
	rt, at := c.runtime(r), r.leaves()
	rt.Binding, rt.Tenant = at.binding, at.tenant
	return rt
}

// leaves returns where the runtime is or was. A gone runtime has the tenant of its last assignment and, if its reply
// names no binding, also the binding.
func (r resident) leaves() tenancy {
	at := *r.at
	if r.state != RuntimeGone {
		return at
	}
	at.tenant = cmp.Or(r.last.tenant, at.tenant)
	if at.binding == "" && r.last.pool == at.pool {
		// A request of the runtime was superseded by a deprovision whose own reply is not stored yet.
		at.binding = r.last.binding
	}
	return at
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
	here := listed && b.pool == pool
	if !here && u.count == 0 {
		return Record{}, false
	}
	if engine.ParsePool(pool).Shared {
		return Record{State: InUse, Confirmed: true, Count: u.count}, u.count > 0
	}
	rec := Record{State: InUse, Tenant: b.tenant, Generation: b.generation, Count: u.count}
	switch {
	case b.dirty:
		rec.State = Dirtying
	case b.tenant != "" && u.count == 0 && c.emptied[tenancy{pool, name, b.tenant}]:
		rec.State = Draining
	case b.tenant != "":
	case here && u.tenant != "" && !u.mixed:
		// Its label was removed while it has clusters. No other tenant may get it, and a tenant that may have
		// only one account must not get a second one. The next assignment writes the label again.
		rec.Tenant = u.tenant
	default:
		// No tenant may get it while it has runtimes that its label does not account for.
		return Record{State: Free, Count: u.count}, u.count > 0
	}
	rec.Claimed = c.claimedAt(tenancy{pool, name, rec.Tenant}, b.generation)
	return rec, true
}
