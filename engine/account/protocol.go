package account

import "errors"

// ErrNotBuilt says that a pool or a bucket of the directory has no epoch: Redis
// lost it, or never had it. The caller backs off, rebuilds it if no other
// worker does, and starts its event over (rule 1).
var ErrNotBuilt = errors.New("not built: lost by Redis or never built")

// AskForRebuild returns err, and calls wanted with the pool first where err says that it has to be
// rebuilt.
func AskForRebuild(err error, wanted func(pool string), pool string) error {
	if errors.Is(err, ErrNotBuilt) {
		wanted(pool)
	}
	return err
}

// ErrRebuilt says that the pool is of another epoch than the caller knows: it was
// rebuilt since, with the directory, which has to be asked again.
var ErrRebuilt = errors.New("rebuilt since its directory was asked")

// Permit says what may be done about a binding without runtimes (rule 8). The
// zero Permit permits nothing.
type Permit struct {
	Given  bool
	Tenant string // that the label must name
	// Pristine takes tenantName off instead of setting dirty: no request was
	// ever answered with this claim.
	Pristine bool
}

// Claim is handed out by a decision and passed to Confirm and
// Revoke. Whatever of it no longer matches, changes nothing.
type Claim struct {
	Runtime    string
	Binding    string
	Generation int64
	Sequence   int64
	Epoch      string
}

// Claim is the decision as Confirm and Revoke take it.
func (d Decision) Claim(runtime string) Claim {
	return Claim{
		Runtime: runtime, Binding: d.Binding, Generation: d.Generation,
		Sequence: d.Sequence, Epoch: d.Epoch,
	}
}

// Label is the state of one binding in Kubernetes, as watch and sweep read it.
type Label struct {
	Binding    string
	Tenant     string // "" is unclaimed
	Dirty      bool
	Generation int64
	// After is the generation of the record after which the label was read from Kubernetes
	// itself. 0: it may be from a cache, and older than the record's claim.
	After int64
}

// Change says what an observed label did to a record.
type Change string

// The changes of Observe. The empty Change left the record as it was.
const (
	BecameFree     Change = "freed"    // unclaimed and clean: the record is gone
	BecameAdopted  Change = "adopted"  // labelled for a tenant that Redis did not know it by
	BecameDirtying Change = "dirtying" // its label is dirty
	BecameDoubted  Change = "doubted"  // its label says otherwise while runtimes are on it
)

// Observation is the outcome of Observe.
type Observation struct {
	Change Change
	Before Record
	Record Record // now
}

// Snapshot has what a rebuild gathered of one pool from ledger, labels and Shoots.
type Snapshot struct {
	Sequence int64 // the highest of the ledger
	Bindings map[string]Record
	Runtimes map[string]Runtime
}

// Place is a runtime's entry in the directory: the pool that it belongs to, or
// Gone where it was deprovisioned before it had any.
type Place struct {
	Pool string
	Gone bool
	// Sequence is the bucket's where Gone. Else it is the number under which the runtime left its last pool, 0 where
	// it never did: all that is decided of it from then on has a higher one (rule 16).
	Sequence int64
}

// Directory has what a rebuild gathered of one bucket.
type Directory struct {
	Sequence int64
	Places   map[string]Place // by runtime
}

// NamedRecord is a binding's record with its name.
type NamedRecord struct {
	Binding string
	Record
}

// NamedRuntime is a runtime's record with its id.
type NamedRuntime struct {
	ID string
	Runtime
}

// Status has what is remembered of a pool or bucket as a whole.
type Status struct {
	Built    bool
	Epoch    string
	Sequence int64
	Paused   bool
	Waiting  int // runtimes that wait
	Bindings int // records
	Runtimes int // records
}

// NamedPlace is a directory entry with its runtime.
type NamedPlace struct {
	Runtime string
	Place
}

// Waiter is a runtime that waits.
type Waiter struct {
	Runtime  string
	Tenant   string
	Request  string
	Sequence int64 // of the decision that made it wait
	Turn     int64 // sequence at which its tenant was last served out of the waiting, 0 for never
}

// Heads are those who are served next for a pool.
type Heads struct {
	First   []Waiter // of each tenant the one that waits longest, in the order in which they are served
	Waiting int      // all that wait
}
