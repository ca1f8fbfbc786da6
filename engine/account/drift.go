package account

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
)

// Drift is a difference between Redis on one side and ledger, labels and Shoots on the other.
type Drift struct {
	Kind    DriftKind
	Pool    string
	Binding string // "" if it is about no binding
	Runtime string // "" if it is about no runtime
	Message string // what each side says

	Record  Record  // of the binding, as Redis has it
	Entry   Runtime // of the runtime, as Redis has it
	Wanted  Runtime // the record that the runtime should have; zero if that is unknown
	Should  Record  // the record that a rebuild would make of Wanted.Binding, or else of Binding
	Label   Label   // of the binding
	Surplus int     // of CountWrong: the count minus the runtimes
	Highest int64   // of SequenceBehind: the highest sequence in the ledger
	Refused bool    // of RuntimeUnknown: the ledger has a refusal for each request of Entry

	// Lacking is set for RuntimeMissing, RuntimeElsewhere and ShootUnknown: the binding that Runtime has
	// according to the ledger or, if the ledger has no assignment, to its Shoot. In Redis the runtime is not
	// on this binding. The count of the binding must not be lowered before the runtime is restored (I2).
	Lacking string
}

// DriftKind names what differs.
type DriftKind string

// The kinds of drift. Drift.Remedy returns what a repair does about each.
const (
	CountWrong         DriftKind = "count-wrong"          // the count is not the number of runtimes
	RuntimeMissing     DriftKind = "runtime-missing"      // assigned in the ledger, not in Redis
	RuntimeUnknown     DriftKind = "runtime-unknown"      // assigned in Redis, not in the ledger
	WaitingUnknown     DriftKind = "waiting-unknown"      // waits in Redis, but no request of the runtime waits in the pool
	RuntimeGoneAlready DriftKind = "runtime-gone"         // released in the ledger, assigned in Redis
	RuntimeElsewhere   DriftKind = "runtime-elsewhere"    // assigned to one binding in Redis, to another by the ledger or its Shoot
	ShootUnknown       DriftKind = "shoot-unknown"        // a Shoot whose runtime Redis has not assigned
	ShootGone          DriftKind = "shoot-gone"           // an entry that came from a Shoot which is gone
	ShootElsewhere     DriftKind = "shoot-elsewhere"      // the Shoot names another binding than its runtime has
	PlaceMissing       DriftKind = "place-missing"        // assigned in Redis; the directory does not have the runtime
	PlaceWrong         DriftKind = "place-wrong"          // assigned in Redis; the directory has the runtime in another pool
	SequenceBehind     DriftKind = "sequence-behind"      // the pool's sequence is below the highest in the ledger
	ClaimedIdle        DriftKind = "claimed-idle"         // a claim without runtimes that no deprovision has emptied
	TenantContradicts  DriftKind = "tenant-contradicts"   // the label, or the runtimes, name another tenant than the record
	LabelMissing       DriftKind = "label-missing"        // the label names no tenant although runtimes are on the binding
	LabelUnfollowed    DriftKind = "label-unfollowed"     // Redis has not applied what the label says
	GenerationDiffers  DriftKind = "generation-differs"   // the label shows another claim of the same tenant
	MarkMissing        DriftKind = "mark-missing"         // dirtying without runtimes in Redis, the label is clean
	DirtyUnderRuntimes DriftKind = "dirty-under-runtimes" // marked dirty while runtimes are on it
	TwoTenants         DriftKind = "two-tenants"          // runtimes of several tenants on one binding
	PoolDiffers        DriftKind = "pool-differs"         // the binding in Gardener, or the ledger, names another pool than Redis
	BindingMissing     DriftKind = "binding-missing"      // Redis has a record or runtimes of it, Gardener does not have it
)

// DriftKinds lists all kinds.
func DriftKinds() []DriftKind {
	return []DriftKind{
		CountWrong, RuntimeMissing, RuntimeUnknown, WaitingUnknown, RuntimeGoneAlready, RuntimeElsewhere,
		ShootUnknown, ShootGone, ShootElsewhere, PlaceMissing, PlaceWrong, SequenceBehind,
		ClaimedIdle, TenantContradicts, LabelMissing, LabelUnfollowed, GenerationDiffers,
		MarkMissing, DirtyUnderRuntimes, TwoTenants, PoolDiffers, BindingMissing,
	}
}

// Remedy says what a reconciliation does about a drift.
type Remedy string

// The remedies.
const (
	Mended    Remedy = "mended"     // Redis is corrected
	Doubted   Remedy = "doubted"    // the claim becomes unconfirmed, so that the next assignment reads its label; the drift stays
	DrainOnly Remedy = "drain-idle" // the claim is drained, but only if the operator asks for that
	Reported  Remedy = "reported"   // an operator has to look
)

// Remedy returns what a repair does about the drift. A drift whose repair could take an account from a tenant
// that uses it is Reported, or Doubted at most.
func (d Drift) Remedy() Remedy {
	switch d.Kind {
	case CountWrong, WaitingUnknown, RuntimeGoneAlready, PlaceMissing, SequenceBehind, LabelUnfollowed, GenerationDiffers:
		return Mended
	case ShootGone:
		if d.Record.last() {
			return DrainOnly // without the runtime, its deprovision would not drain the claim
		}
		return Mended
	case RuntimeMissing, RuntimeElsewhere, ShootUnknown:
		if d.Wanted.State != "" {
			return Mended
		}
	case RuntimeUnknown:
		if d.Refused {
			return Mended
		}
	case BindingMissing:
		if d.Record.loose() {
			return Mended
		}
	case TenantContradicts, LabelMissing, DirtyUnderRuntimes:
		return Doubted
	case ClaimedIdle:
		return DrainOnly
	}
	return Reported
}

// Is reports whether both are the same drift: of the same kind, pool, binding and runtime, and with the same
// Surplus. Messages and records may differ.
func (d Drift) Is(other Drift) bool {
	return d.Kind == other.Kind && d.Pool == other.Pool && d.Binding == other.Binding &&
		d.Runtime == other.Runtime && d.Surplus == other.Surplus
}

// Compare compares the records in Redis, those of the built pools and of the directory, with what was
// gathered. It returns the drifts in the order of pools, bindings and runtimes.
func (g *Gathering) Compare(have map[string]Snapshot, places map[string]Place) []Drift {
	c := comparison{Contents: g.Contents(), places: places, lodged: map[string]bool{}}
	for _, s := range g.shoots {
		c.lodged[s.runtime] = true
	}
	for pool, snapshot := range have {
		c.compare(pool, snapshot)
	}
	slices.SortFunc(c.found, func(a, b Drift) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Binding, b.Binding),
			cmp.Compare(a.Runtime, b.Runtime), cmp.Compare(a.Kind, b.Kind))
	})
	return c.found
}

type comparison struct {
	*Contents
	places map[string]Place
	lodged map[string]bool // runtimes that have a Shoot which is not in their resident
	found  []Drift

	pool       string
	have, want Snapshot
	on         map[string]*usage // by binding, from the runtimes in Redis
}

func (c *comparison) note(kind DriftKind, d Drift, format string, args ...any) {
	d.Kind, d.Pool, d.Message = kind, c.pool, fmt.Sprintf(format, args...)
	if d.Binding != "" {
		d.Record, d.Should = c.have.record(d.Binding), c.want.record(d.Binding)
		if b, listed := c.bindings[d.Binding]; listed {
			d.Label = labelOf(b)
		}
	}
	if d.Wanted.Binding != "" {
		d.Should = c.want.record(d.Wanted.Binding)
	}
	if d.Runtime != "" {
		d.Entry = c.have.Runtimes[d.Runtime]
	}
	c.found = append(c.found, d)
}

func labelOf(b engine.Binding) Label {
	return Label{Binding: b.Name, Tenant: b.Tenant, Dirty: b.Dirty, Generation: b.Generation}
}

// record returns the binding's record, a free one if there is none.
func (s Snapshot) record(binding string) Record {
	if rec, known := s.Bindings[binding]; known {
		return rec
	}
	return Record{State: Free}
}

func (c *comparison) compare(pool string, have Snapshot) {
	c.pool, c.have, c.want, c.on = pool, have, c.Pool(pool), map[string]*usage{}
	if highest := c.highest[pool]; have.Sequence < highest {
		c.note(SequenceBehind, Drift{Highest: highest}, "Redis is at number %d, the ledger at %d", have.Sequence, highest)
	}
	for id, rt := range have.Runtimes {
		switch {
		case rt.State == RuntimeAssigned:
			c.assigned(id, rt)
		case rt.State == RuntimeWaiting && !c.waiting[id]:
			c.note(WaitingUnknown, Drift{Runtime: id}, "waits by number %d, and no request of it waits", rt.Sequence)
		case rt.State == RuntimeWaiting && c.places[id].Sequence > rt.Sequence && c.places[id].Pool != pool:
			c.note(WaitingUnknown, Drift{Runtime: id}, "waits by number %d, and has gone to pool %s since", rt.Sequence, c.places[id].Pool)
		}
	}
	for id, wanted := range c.want.Runtimes {
		if wanted.State == RuntimeAssigned {
			c.missing(id, wanted, have.Runtimes[id])
		}
	}
	for _, s := range c.shoots {
		if rt := have.Runtimes[s.runtime]; rt.State == RuntimeAssigned {
			c.elsewhere(s.runtime, rt, s.binding)
		}
	}
	c.everyBinding()
}

// elsewhere checks the binding that the Shoot of an assigned runtime names.
func (c *comparison) elsewhere(id string, rt Runtime, shoot string) {
	if rt.Binding != shoot {
		c.note(ShootElsewhere, Drift{Binding: rt.Binding, Runtime: id}, "assigned to %s, its Shoot names %s", rt.Binding, shoot)
	}
}

// assigned checks a runtime that is assigned in Redis.
func (c *comparison) assigned(id string, rt Runtime) {
	u := c.on[rt.Binding]
	if u == nil {
		u = &usage{}
		c.on[rt.Binding] = u
	}
	u.add(rt.Tenant)
	switch place := c.places[id]; {
	case place == Place{}:
		c.note(PlaceMissing, Drift{Runtime: id}, "assigned to %s, the directory does not have it", rt.Binding)
	case place.Gone:
		c.note(PlaceWrong, Drift{Runtime: id}, "assigned to %s, the directory has it as gone", rt.Binding)
	case place.Pool != c.pool:
		c.note(PlaceWrong, Drift{Runtime: id}, "assigned to %s, the directory has it in pool %q", rt.Binding, place.Pool)
	}
	at, known := c.resident(id)
	if at.shoot != nil {
		c.elsewhere(id, rt, *at.shoot)
	}
	d := Drift{Binding: rt.Binding, Runtime: id}
	switch {
	case known && at.state == RuntimeGone && (at.pool == "" || at.sequence > rt.Sequence): // without a pool, at.sequence is a number of the bucket
		c.note(RuntimeGoneAlready, d, "released in the ledger by number %d, Redis has it assigned by %d", at.sequence, rt.Sequence)
	case known && at.state == RuntimeAssigned && at.binding == rt.Binding:
		if at.pool != c.pool {
			c.note(PoolDiffers, d, "in pool %s by the ledger", at.pool)
		}
	case known && at.state == RuntimeAssigned:
		if at.sequence > rt.Sequence && at.pool == c.pool && at.origin != Adopted {
			d.Wanted = at.runtime()
		}
		d.Lacking = at.binding
		elsewhere := fmt.Sprintf("in the ledger to %s by %d", at.binding, at.sequence)
		if at.origin == Adopted {
			elsewhere = fmt.Sprintf("its Shoot names %s, and the ledger has no assignment", at.binding)
		}
		c.note(RuntimeElsewhere, d, "assigned to %s by number %d, %s", rt.Binding, rt.Sequence, elsewhere)
	case rt.Origin == Adopted:
		if at.shoot == nil && !c.lodged[id] {
			c.note(ShootGone, d, "it was read from a Shoot, which is gone")
		}
	default:
		c.note(RuntimeUnknown, d, "assigned to %s by number %d, the ledger does not have that", rt.Binding, rt.Sequence)
	}
}

// missing notes a runtime that is assigned by the ledger, or by its Shoot, but not in the pool in Redis.
func (c *comparison) missing(id string, wanted, rt Runtime) {
	d := Drift{Binding: wanted.Binding, Runtime: id, Lacking: wanted.Binding}
	if rt.State == RuntimeAssigned || rt.State == RuntimeGone && wanted.Origin == Adopted {
		return // assigned checks it; or the runtime is gone, and its Shoot is about to be deleted
	}
	if place := c.places[id]; place.Gone && wanted.Origin == Adopted {
		return
	}
	if rt.Sequence <= wanted.Sequence || wanted.Origin == Adopted {
		d.Wanted = wanted
	}
	if wanted.Origin == Adopted {
		c.note(ShootUnknown, d, "its Shoot is on %s, Redis has it %s", wanted.Binding, said(rt))
		return
	}
	c.note(RuntimeMissing, d, "assigned to %s in the ledger by number %d, Redis has it %s", wanted.Binding, wanted.Sequence, said(rt))
}

func said(rt Runtime) string {
	if rt.State == "" {
		return "not at all"
	}
	return fmt.Sprintf("%s by number %d", rt.State, rt.Sequence)
}
