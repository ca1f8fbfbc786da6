package account

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
