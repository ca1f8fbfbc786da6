// Package account decides which binding of a pool a runtime gets. It is the
// model in pure Go of what the Redis scripts of package counters do: both take
// the same requests, give the same decisions and keep the same records, and a
// test drives them side by side.
//
// The rules are those of docs/protocol.md; a comment names the rule where it is kept.
package account

import (
	"slices"

	"github.com/hap-worker/hap-worker/engine"
)

// Strategy says which of a tenant's accounts below the limit gets the next cluster.
type Strategy string

// The strategies of tenants that may have several accounts. Ties go by name.
const (
	// FillMostPopulated takes the account with the most clusters.
	FillMostPopulated Strategy = "fill-most-populated"
	// FillFirst takes the account that was claimed most recently.
	FillFirst Strategy = "fill-first"
	// RoundRobin takes the account with the fewest clusters.
	RoundRobin Strategy = "round-robin"
)

// Terms say how many accounts a tenant may have in a pool, and how full.
// The zero value is one account without a limit.
type Terms struct {
	Several  bool     // the tenant is on the allow-list of several accounts
	Limit    int      // clusters per account; 0 is no limit. Read only where Several.
	Strategy Strategy // read only where Several
}

// LimitIn is how many clusters an account of the pool may have under these terms; 0 is no limit.
// A shared account has none, since its clusters are of many tenants, and neither has a tenant's only account.
func (t Terms) LimitIn(pool engine.Pool) int {
	if !t.Several || pool.Shared {
		return 0
	}
	return t.Limit
}

// Seen is a binding as the caller has read it, offered to a decision: either
// unclaimed and clean, or clean and labelled with the tenant that asks. What is
// dirty, internal, held back or another tenant's is not offered.
type Seen struct {
	Binding    string
	Generation int64 // of its label
	Mine       bool  // its label names the tenant that asks
}

// Request asks for a binding for a runtime.
type Request struct {
	Runtime string
	Request string
	Tenant  string
	Shared  bool
	Terms   Terms

	// Seen are the suggestions, best first. Redis decides; these only suggest.
	// For a shared pool they are all its bindings that may be assigned.
	Seen []Seen
	// All says that Seen holds everything there is: if nothing of it fits, the
	// request waits. Otherwise the outcome is Short and nothing is recorded.
	All bool
	// InTurn says that those who wait are being served, and that it is this
	// request's turn: it may claim although others wait.
	InTurn bool
	// Now says that the request does not wait, or no more: where nothing is found it is
	// refused in the same step, and is never in the queue.
	Now bool
	// Barred are bindings of the tenant that must not gain a runtime: dirty, held back, or
	// internal while the tenant is none of the internal ones.
	Barred []string
	// Epoch is the one that the pool had before the directory was asked for the
	// runtime's place: what a directory said that was lost since holds no more.
	// "" asks the pool as it is.
	Epoch string
	// After is the number of the runtime's place (Place.Sequence).
	After int64
}

// Outcome says what became of a request.
type Outcome string

// The outcomes of Assign and Refuse.
const (
	Assigned   Outcome = "assigned"
	Superseded Outcome = "superseded" // the runtime is gone
	Refused    Outcome = "refused"    // this very request was refused before, or is now
	Waiting    Outcome = "waiting"    // nothing fits
	Short      Outcome = "short"      // nothing of Seen fits, and Seen was not all
	Foreign    Outcome = "foreign"    // the runtime is another tenant's, and nothing is said of it
	Moved      Outcome = "moved"      // the runtime has left the pool since its place was read
)

// Origin says how a binding was found.
type Origin string

// The origins of an assignment.
const (
	Own      Origin = "own"      // the tenant's own, as the strategy says
	Revived  Origin = "revived"  // the tenant's own that was draining
	Labelled Origin = "labelled" // its label named the tenant already, Redis did not know
	Claimed  Origin = "claimed"  // an unclaimed one, taken
	Shared   Origin = "shared"   // the least used of a shared pool
	Adopted  Origin = "shoot"    // read from a Shoot by a rebuild
)

// Decision is the answer to a Request.
type Decision struct {
	Outcome    Outcome
	Binding    string
	Generation int64  // of the claim; what the label must carry
	Sequence   int64  // the decision's number, increasing per pool
	Epoch      string // of the pool
	Confirmed  bool   // may be answered at once
	Origin     Origin
	Request    string // the request that the assignment was made for, where it is a repeat
	Repeated   bool   // the runtime had this binding before
	Count      int    // runtimes on the binding, with this one
	Position   int    // place among the waiting, from 1, where Outcome is Waiting and it was recorded
	Considered []Considered
}

// Considered is a binding that a decision looked at, and what was found.
type Considered struct {
	Binding  string
	Clusters int
	Verdict  Verdict
}

// MayNotClaim reports whether the request waits because of its tenant: the tenant's one
// account has runtimes and must not gain any, and a second one is not begun (I4).
func (d Decision) MayNotClaim() bool {
	return d.Outcome == Waiting && slices.ContainsFunc(d.Considered, func(c Considered) bool {
		return c.Verdict == BarredHere && c.Clusters > 0
	})
}

// Verdict says why a binding was chosen or passed over.
type Verdict string

// The verdicts of a decision.
const (
	Chosen       Verdict = "chosen"
	AtLimit      Verdict = "at-limit"
	LessFitting  Verdict = "less-fitting" // another one of the tenant's comes first by the strategy
	BarredHere   Verdict = "barred"       // held back or internal
	HeldByOther  Verdict = "held"         // Redis knows it as another tenant's, or as dirtying
	MoreClusters Verdict = "more-used"    // shared pools: another one has fewer clusters
)

// MaxConsidered bounds the list of considered bindings in a Decision.
const MaxConsidered = 16

// State is where a binding is in its life.
type State string

// The states of a binding. Only free bindings are claimed, only claiming,
// claimed and draining ones gain runtimes.
const (
	Free     State = "free"
	Claiming State = "claiming" // taken in Redis, the label not confirmed
	InUse    State = "claimed"
	Draining State = "draining" // the last runtime went; the tenant may come back
	Dirtying State = "dirtying" // on its way to dirty=true; nothing leads back but a release
)

// Record is the state of a binding.
type Record struct {
	State      State
	Tenant     string
	Generation int64
	Confirmed  bool // the label was seen to carry tenant, generation and the current epoch
	Count      int
	Claimed    int64 // sequence of the decision that claimed it, for fill-first
	// Pristine is a claim of this epoch that no runtime has left which may have been
	// answered: once no runtime is on it, it goes back to its pool as it came.
	Pristine bool
}

// RuntimeState is where a runtime is in its life.
type RuntimeState string

// The states of a runtime.
const (
	RuntimeWaiting  RuntimeState = "waiting"
	RuntimeAssigned RuntimeState = "assigned"
	RuntimeGone     RuntimeState = "gone"
	RuntimeRefused  RuntimeState = "refused"
	RuntimeMoved    RuntimeState = "moved" // to another pool, under its sequence: rule 16
)

// Runtime is the state of a runtime. The zero value is an unknown one.
type Runtime struct {
	State     RuntimeState
	Binding   string // assigned and gone; "" for one that never had any
	Sequence  int64
	Request   string // that it waits or was refused by; all that it was assigned by, with spaces between
	Confirmed bool   // its answer may have been given
	Origin    Origin
	Tenant    string
}

// Departure says what a deprovision found and did.
type Departure struct {
	Binding    string // "" where the runtime had none
	Tenant     string // of the binding
	Generation int64  // of the binding's claim
	Sequence   int64
	Count      int    // runtimes left on the binding
	State      State  // of the binding now
	Repeated   bool   // the runtime was gone before
	Waited     string // the request that waited until now, to be answered Superseded
	Foreign    bool   // the runtime is another tenant's: nothing was done, and nothing is said of it
	Moved      bool   // the runtime has left the pool since its place was read: nothing was done
}
