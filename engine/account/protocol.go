package account

import (
	"errors"
	"iter"

	"github.com/hap-worker/hap-worker/engine"
)

// ErrNotBuilt says that a pool, a bucket of the directory or the network ranges have no valid epoch: Redis lost
// them, never had them or was restarted, or an operator discarded them. The caller backs off, rebuilds them if no
// other worker does, and starts its event over (rule 1).
var ErrNotBuilt = errors.New("not built: lost by Redis or never built")

// Rebuilder rebuilds what Redis has lost; package rebuild implements it.
type Rebuilder interface {
	// Wanted requests a rebuild of pool and of everything else that is not built; "" names no pool in
	// particular. It does not block.
	Wanted(pool string)
}

// AskForRebuild returns err unchanged. If err is an ErrNotBuilt, it first requests a rebuild of the pool.
func AskForRebuild(err error, r Rebuilder, pool string) error {
	if errors.Is(err, ErrNotBuilt) {
		r.Wanted(pool)
	}
	return err
}

// ErrRebuilt means that the pool has another epoch than the caller knows: the pool was rebuilt since, perhaps
// with the directory, and the caller must ask the directory again.
var ErrRebuilt = errors.New("the pool was rebuilt after the directory was read")

// Permit says what may be written on a binding without runtimes (rule 8). The zero Permit permits nothing.
type Permit struct {
	Given  bool
	Tenant string // the tenant that the label must name
	// Pristine permits to remove tenantName instead of setting dirty: no request was ever answered with this
	// claim.
	Pristine bool
}

// Claim identifies a claim. A decision returns it; Confirm and Revoke change nothing if any of its fields no
// longer matches.
type Claim struct {
	Runtime    string
	Binding    string
	Generation int64
	Sequence   int64
	Epoch      string
}

// Claim returns the argument for Confirm and Revoke.
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
	// After is the generation that the record had before the label was read from Kubernetes itself. 0 means
	// that the label may come from a cache, and may be older than the record's claim.
	After int64
}

// LabelOf returns the Label of a binding, with this After.
func LabelOf(b engine.Binding, after int64) Label {
	return Label{Binding: b.Name, Tenant: b.Tenant, Dirty: b.Dirty, Generation: b.Generation, After: after}
}

// Change says what an observed label did to a record.
type Change string

// The changes: BecameDoubted is reported after Doubt, the others are made by Observe. The empty Change means
// that the record stayed as it was.
const (
	BecameFree     Change = "freed"    // unclaimed and clean: the record is gone
	BecameAdopted  Change = "adopted"  // Redis had no record, or one of another tenant or claim: it follows the label, even if that is dirty
	BecameDirtying Change = "dirtying" // its label is dirty, and names no other tenant than the record
	BecameDoubted  Change = "doubted"  // the label contradicts the record while runtimes are on the binding
)

// Observation is the outcome of Observe.
type Observation struct {
	Change Change
	Before Record
	Record Record // now
}

// Snapshot is one pool as a rebuild gathered it from ledger, labels and Shoots.
type Snapshot struct {
	Sequence int64 // the highest in the ledger
	Bindings map[string]Record
	// Runtimes has each runtime once, under its id; nil for none. There may be a million, so that a rebuild makes each
	// when it is visited.
	Runtimes iter.Seq2[string, Runtime]
}

// EachRuntime visits the runtimes.
func (s Snapshot) EachRuntime() iter.Seq2[string, Runtime] {
	if s.Runtimes == nil {
		return func(func(string, Runtime) bool) {}
	}
	return s.Runtimes
}

// Place is a runtime's entry in the directory: the pool that it belongs to, or Gone if it was deprovisioned
// before it had one.
type Place struct {
	Pool string
	Gone bool
	// Sequence is a number of the bucket if Gone: that of Depart or of BeginForgetting.
	// Otherwise it is the number under which the runtime left the pool that it was in before (rule 16): later
	// decisions about it have higher numbers. 0 means that it has not moved, or not since the bucket was rebuilt.
	Sequence int64
	// Tentative says that the entry, which is Gone, is about to be forgotten, unless anyone asks for the place first
	// (rule 14).
	Tentative bool
}

// Directory is one bucket as a rebuild gathered it.
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

// Status summarizes a pool or a bucket.
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
	Turn     int64 // sequence at which a waiting request of its tenant was last served, 0 for never
}

// Heads are the runtimes that a pool serves next.
type Heads struct {
	First   []Waiter // the longest-waiting runtime of each of the first tenants, in the order of service
	Waiting int      // number of all that wait
}
