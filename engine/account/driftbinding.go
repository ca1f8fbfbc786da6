package account

import (
	"cmp"

	"github.com/hap-worker/hap-worker/engine"
)

// everyBinding checks all bindings of the built pools: those that Redis records there or has runtimes on, and those
// that belong to the pool in Gardener (engine.Binding.Pool).
func (c *comparison) everyBinding() {
	for name, b := range c.bindings {
		if p := c.pools[b.pool]; p != nil && p.built {
			c.binding(b.pool, name)
		}
	}
	for pool, p := range c.pools {
		if !p.built {
			continue
		}
		foreign := func(name string) bool {
			b, listed := c.bindings[name]
			return !listed || b.pool != pool
		}
		for name := range p.bindings {
			if foreign(name) {
				c.binding(pool, name)
			}
		}
		for name := range c.on[pool] {
			if _, recorded := p.bindings[name]; !recorded && foreign(name) {
				c.binding(pool, name)
			}
		}
	}
}

func (c *comparison) binding(pool, name string) {
	rec, u := c.has(pool, name), c.on[pool][name]
	if u == nil {
		u = &usage{}
	}
	shared := engine.ParsePool(pool).Shared
	b, listed := c.bindings[name]
	if rec.Count != u.count {
		c.note(pool, CountWrong, Drift{Binding: name, Surplus: rec.Count - u.count}, "counted %d, %d runtimes are assigned to it", rec.Count, u.count)
	}
	if u.mixed && !shared {
		c.note(pool, TwoTenants, Drift{Binding: name}, "its runtimes are of several tenants, its label says %q", b.tenant)
	}
	known := rec.State != Free || u.count > 0
	switch {
	case !listed && (shared && u.count == 0 || rec.State == Claiming):
	case !listed:
		if known {
			c.note(pool, BindingMissing, Drift{Binding: name}, "Redis has it %s with %d runtimes, Gardener does not have it", rec.State, rec.Count)
		}
	case b.pool != pool:
		if known {
			c.note(pool, PoolDiffers, Drift{Binding: name}, "in Gardener it belongs to pool %s, Redis has it here %s with %d runtimes", b.pool, rec.State, rec.Count)
		}
	case !shared:
		c.label(b.pool, b.label(name), rec, u)
	}
}

// label compares a dedicated binding's label with its record.
func (c *comparison) label(pool string, b Label, rec Record, u *usage) {
	note := func(kind DriftKind, format string, args ...any) {
		c.note(pool, kind, Drift{Binding: b.Binding}, format, args...)
	}
	_, change := rec.follow(b)
	switch {
	case change != "":
		note(LabelUnfollowed, "Redis has it %s of %q, its label is %s", rec.State, rec.Tenant, saidLabel(b))
	case rec.State == Claiming: // the claim has yet to write the label
	case b.Dirty && rec.Count > 0:
		note(DirtyUnderRuntimes, "dirty, and %d runtimes are on it", rec.Count)
	case rec.State == Dirtying:
		if !b.Dirty && rec.Count == 0 {
			note(MarkMissing, "on its way to dirty in Redis, its label is %s", saidLabel(b))
		}
	case b.Tenant == "" && rec.Count > 0:
		note(LabelMissing, "%d runtimes of %s are on it, its label is %s", rec.Count, cmp.Or(rec.Tenant, "an unknown tenant"), saidLabel(b))
	case rec.State == Free && rec.Count == 0: // free on both sides
	case u.tenant != "" && !u.mixed && b.Tenant == rec.Tenant && u.tenant != rec.Tenant:
		note(TenantContradicts, "%s's in Redis and by its label, its runtimes are of %s", rec.Tenant, u.tenant)
	case b.Tenant != rec.Tenant && (b.Tenant != "" || rec.Confirmed):
		note(TenantContradicts, "%s's in Redis with %d runtimes, its label is %s", cmp.Or(rec.Tenant, "no tenant"), rec.Count, saidLabel(b))
	case rec.Confirmed && b.Generation != rec.Generation:
		note(GenerationDiffers, "claim %d in Redis, %d by its annotation", rec.Generation, b.Generation)
	case rec.idle() && c.should(pool, b.Binding).Count == 0:
		note(ClaimedIdle, "claimed for %s, and no runtime is on it", rec.Tenant)
	}
}

func saidLabel(l Label) string {
	switch {
	case l.Dirty:
		return "dirty"
	case l.Tenant == "":
		return "unclaimed"
	default:
		return l.Tenant + "'s"
	}
}
