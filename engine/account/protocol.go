package account

import "errors"

// ErrNotBuilt says that a pool or a bucket of the directory has no epoch: Redis
// lost it, or never had it. The caller backs off, rebuilds it if nobody else
// does, and starts its event over (rule 1).
var ErrNotBuilt = errors.New("not built: lost by Redis or never built")

// ErrRebuilt says that the pool is of another epoch than the caller knows: it was
// rebuilt since, with the directory, which has to be asked again.
var ErrRebuilt = errors.New("rebuilt since its directory was asked")

// Permit is what may be done about a binding that nobody is on (rule 8). The
// zero Permit permits nothing.
type Permit struct {
	Given  bool
	Tenant string // that the label must name
	// Pristine takes tenantName off instead of setting dirty: nobody was ever
	// answered with this claim.
	Pristine bool
}

// Claim is what a decision handed out and what Confirm and Revoke are given
// back. Whatever of it no longer matches, changes nothing.
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

// Label is what Kubernetes says of one binding, as watch and sweep read it.
type Label struct {
	Binding    string
	Tenant     string // "" is unclaimed
	Dirty      bool
	Generation int64
}

// Change is what an observed label did to a record.
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

// Snapshot is what a rebuild gathered of one pool from ledger, labels and Shoots.
type Snapshot struct {
	Sequence int64 // the highest of the ledger
	Bindings map[string]Record
	Runtimes map[string]Runtime
}

// Place is a runtime's entry in the directory: the pool that it belongs to, or
// Gone where it was deprovisioned before it had any.
type Place struct {
	Pool     string
	Gone     bool
	Sequence int64 // of the bucket, where Gone
}

// Directory is what a rebuild gathered of one bucket.
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

// Status is what is remembered of a pool or bucket as a whole.
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
