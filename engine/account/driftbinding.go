package account

import (
	"cmp"

	"github.com/hap-worker/hap-worker/engine"
)

// everyBinding checks all bindings of the pool: those that Redis records there or has runtimes on, and those
// that belong to the pool in Gardener (engine.Binding.Pool).
func (c *comparison) everyBinding() {
	names := map[string]bool{}
	for name := range c.have.Bindings {
		names[name] = true
	}
	for name := range c.on {
		names[name] = true
	}
	for name, b := range c.bindings {
		if b.Pool().Name() == c.pool {
			names[name] = true
		}
	}
	for name := range names {
		c.binding(name)
	}
}

func (c *comparison) binding(name string) {
	rec, u := c.have.record(name), c.on[name]
	if u == nil {
		u = &usage{}
	}
	shared := engine.ParsePool(c.pool).Shared
	if rec.Count != u.count {
		c.note(CountWrong, Drift{Binding: name, Surplus: rec.Count - u.count}, "counted %d, %d runtimes are assigned to it", rec.Count, u.count)
	}
	if u.mixed && !shared {
		c.note(TwoTenants, Drift{Binding: name}, "its runtimes are of several tenants, its label says %q", c.bindings[name].Tenant)
	}
	known := rec.State != Free || u.count > 0
	b, listed := c.bindings[name]
	switch {
	case !listed && (shared && u.count == 0 || rec.State == Claiming):
	case !listed:
		if known {
			c.note(BindingMissing, Drift{Binding: name}, "Redis has it %s with %d runtimes, Gardener does not have it", rec.State, rec.Count)
		}
	case b.Pool().Name() != c.pool:
		if known {
			c.note(PoolDiffers, Drift{Binding: name}, "in Gardener it belongs to pool %s, Redis has it here %s with %d runtimes", b.Pool().Name(), rec.State, rec.Count)
		}
	case !shared:
		c.label(b, rec, u)
	}
}

// label compares a dedicated binding's label with its record.
func (c *comparison) label(b engine.Binding, rec Record, u *usage) {
	d := Drift{Binding: b.Name}
	_, change := rec.follow(labelOf(b))
	switch {
	case change != "":
		c.note(LabelUnfollowed, d, "Redis has it %s of %q, its label is %s", rec.State, rec.Tenant, saidLabel(b))
	case rec.State == Claiming: // the claim has yet to write the label
	case b.Dirty && rec.Count > 0:
		c.note(DirtyUnderRuntimes, d, "dirty, and %d runtimes are on it", rec.Count)
	case rec.State == Dirtying:
		if !b.Dirty && rec.Count == 0 {
			c.note(MarkMissing, d, "on its way to dirty in Redis, its label is %s", saidLabel(b))
		}
	case b.Tenant == "" && rec.Count > 0:
		c.note(LabelMissing, d, "%d runtimes of %s are on it, its label is %s", rec.Count, cmp.Or(rec.Tenant, "an unknown tenant"), saidLabel(b))
	case rec.State == Free && rec.Count == 0: // free on both sides
	case u.tenant != "" && !u.mixed && b.Tenant == rec.Tenant && u.tenant != rec.Tenant:
		c.note(TenantContradicts, d, "%s's in Redis and by its label, its runtimes are of %s", rec.Tenant, u.tenant)
	case b.Tenant != rec.Tenant && (b.Tenant != "" || rec.Confirmed):
		c.note(TenantContradicts, d, "%s's in Redis with %d runtimes, its label is %s", cmp.Or(rec.Tenant, "no tenant"), rec.Count, saidLabel(b))
	case rec.Confirmed && b.Generation != rec.Generation:
		c.note(GenerationDiffers, d, "claim %d in Redis, %d by its annotation", rec.Generation, b.Generation)
	case rec.idle() && c.want.record(b.Name).Count == 0:
		c.note(ClaimedIdle, d, "claimed for %s, and no runtime is on it", rec.Tenant)
	}
}

func saidLabel(b engine.Binding) string {
	switch {
	case b.Dirty:
		return "dirty"
	case b.Tenant == "":
		return "unclaimed"
	default:
		return b.Tenant + "'s"
	}
}
