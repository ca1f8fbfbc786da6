// Package account decides which binding of a pool a runtime gets. It is the pure Go model of the Redis
// scripts in package counters: both take the same requests, make the same decisions and keep the same
// records, and a test drives them side by side.
//
// It implements the rules of docs/protocol.md; a comment names the rule where it is kept.
package account

import (
	"slices"

	"github.com/hap-worker/hap-worker/engine"
)

// Strategy chooses, among a tenant's accounts below the limit, the account for the next cluster.
type Strategy string

// The strategies of tenants that may have several accounts. Of accounts that are equal by the strategy, the
// first by name is taken.
const (
	// FillMostPopulated takes the account with the most clusters.
	FillMostPopulated Strategy = "fill-most-populated"
	// FillFirst takes the account that was claimed most recently.
	FillFirst Strategy = "fill-first"
	// RoundRobin takes the account with the fewest clusters.
	RoundRobin Strategy = "round-robin"
)

// Terms say how many accounts a tenant may have in a pool, and how many clusters each may have.
// The zero value is one account without a limit.
type Terms struct {
	Several  bool     // the tenant is on the allow-list of several accounts
	Limit    int      // clusters per account; 0 is no limit. Read only where Several.
	Strategy Strategy // read only where Several
}

// LimitIn returns how many clusters an account of the pool may have under these terms; 0 means no limit. A
// shared account has none, since it takes clusters of many tenants, and neither has a tenant's only account.
func (t Terms) LimitIn(pool engine.Pool) int {
	if !t.Several || pool.Shared {
		return 0
	}
	return t.Limit
}

// Seen is a clean binding that the caller has read. In a dedicated pool it is unclaimed, or its label names the
// requesting tenant. It may be chosen unless Request.Barred has it too: then it only tells a decision the
// generation of its label.
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

	// Seen lists the suggestions, best first; Redis decides. For a shared pool it has all bindings that may be
	// assigned.
	Seen []Seen
	// All means that Seen is complete: if nothing fits, the request waits, or is refused (see Now). If
	// nothing fits and All is not set, the outcome is Short and nothing is recorded; but in a paused pool
	// the request waits, or is refused, as with All.
	All bool
	// InTurn means that waiting requests are being served and that it is this request's turn: it may claim
	// although others wait.
	InTurn bool
	// Now means that the request must not wait, for example because its deadline has passed: instead of
	// waiting, it is refused in the same step.
	Now bool
	// Barred lists bindings that must not gain a runtime, the tenant's and unclaimed ones: they are dirty, held back,
	// internal although the tenant is not, or left out by the worker, for example because the API refuses to label
	// them.
	Barred []string
	// Epoch is the pool's epoch, read no later than the runtime's place in the directory. If the pool has another
	// epoch by now, the place may be out of date, and the request fails with ErrRebuilt. "" skips the check.
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
	Refused    Outcome = "refused"    // this very request was refused before, or is refused now
	Waiting    Outcome = "waiting"    // nothing fits, or the pool is paused
	Short      Outcome = "short"      // nothing of Seen fits, and Request.All was not set
	Foreign    Outcome = "foreign"    // the runtime is another tenant's; the decision says nothing about it
	Moved      Outcome = "moved"      // the runtime has left the pool since its place was read
)

// Origin says how a binding was found.
type Origin string

// The origins of an assignment.
const (
	Own      Origin = "own"      // the tenant's own, chosen by the strategy; after a rebuild also any that the request did not claim
	Revived  Origin = "revived"  // the tenant's own that was draining
	Labelled Origin = "labelled" // its label named the tenant already, and Redis had no record
	Claimed  Origin = "claimed"  // unclaimed until now
	Shared   Origin = "shared"   // the least used of a shared pool
	Adopted  Origin = "shoot"    // read from a Shoot by a rebuild or an audit
)

// Decision is the answer to a Request. Refuse leaves Generation, Claiming, Count, Position and Considered empty.
type Decision struct {
	Outcome    Outcome
	Binding    string
	Generation int64  // of the claim; what the label must carry
	Sequence   int64  // the decision's number, increasing per pool
	Epoch      string // of the pool
	Confirmed  bool   // the caller may answer at once; if false, it first writes the label and calls Confirm
	Origin     Origin
	Request    string // the runtime's first request: see Runtime.FirstRequest
	Repeated   bool   // an earlier call made the assignment
	Claiming   bool   // no request was answered yet with the binding's claim: it may be revoked as a whole (rule 6)
	Count      int    // runtimes on the binding, with this one
	Position   int    // if Outcome is Waiting: place among the waiting by sequence, from 1; otherwise 0
	Considered []Considered
}

// Considered is a binding that a decision looked at, with its verdict.
type Considered struct {
	Binding  string
	Clusters int
	Verdict  Verdict
}

// MayNotClaim reports whether a request with these terms waits because its tenant must not begin a second account
// (I4): the tenant's account has runtimes and must not gain any.
func (d Decision) MayNotClaim(t Terms) bool {
	return d.Outcome == Waiting && !t.Several && slices.ContainsFunc(d.Considered, func(c Considered) bool {
		return c.Verdict == BarredHere && c.Clusters > 0
	})
}

// Verdict says why a binding was chosen or passed over.
type Verdict string

// The verdicts of a decision.
const (
	Chosen       Verdict = "chosen"
	AtLimit      Verdict = "at-limit"
	LessFitting  Verdict = "less-fitting" // rule 3 puts another account of the tenant first, or another one is in use and it may have only one (I4)
	BarredHere   Verdict = "barred"       // in Request.Barred
	HeldByOther  Verdict = "held"         // another tenant's in Redis, dirtying, or Held (see there)
	MoreClusters Verdict = "more-used"    // shared pools: another one has fewer clusters, or as many and comes first by name
)

// MaxConsidered bounds the list of considered bindings in a Decision.
const MaxConsidered = 16

// State is where a binding is in its life.
type State string

// The states of a binding. A request claims only free bindings, and of the others gets only claiming, claimed and
// draining ones. A repair or a rebuild may also count a runtime that was lost on a dirtying one.
const (
	Free     State = "free"
	Claiming State = "claiming" // taken in Redis, the label not confirmed
	InUse    State = "claimed"
	Draining State = "draining" // the last runtime went; the tenant may come back
	Dirtying State = "dirtying" // on its way to dirty=true, or back to the pool if pristine; only rules 8 to 10 lead out of it
)

// Record is the state of a binding.
type Record struct {
	State      State
	Tenant     string
	Generation int64
	Confirmed  bool // the label was seen to carry tenant, generation and the current epoch; true in a shared pool
	Count      int
	Claimed    int64 // sequence of the decision that claimed it, 0 if unknown; see Terms.prefers
	// Pristine is set when an unclaimed binding is claimed, and a rebuild does not keep it. It is cleared when a
	// deprovision takes off a runtime that may have been answered, or when a revoke, a repair or a label changes
	// the record. A pristine binding without runtimes returns to its pool without a cleanup.
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
	RuntimeMoved    RuntimeState = "moved" // it left for another pool, under this sequence (rule 16)
)

// Runtime is the state of a runtime. The zero value is an unknown one.
type Runtime struct {
	State     RuntimeState
	Binding   string // if assigned or gone; "" if it became gone without one
	Sequence  int64
	Request   string // that waits, waited or was refused; if assigned, a list of requests: see mostRequests
	Confirmed bool   // a worker may have answered a request with this binding
	Origin    Origin
	Tenant    string
}

// Departure says what a deprovision found and did. If the binding is no longer the runtime's tenant's, Tenant,
// Generation and Count are zero and State is Free.
type Departure struct {
	Binding    string // "" where the runtime had none
	Tenant     string // of the binding
	Generation int64  // of the binding's claim
	Sequence   int64
	Count      int    // runtimes left on the binding
	State      State  // of the binding now
	Repeated   bool   // the runtime was gone before
	Waited     string // the request that waited until the deprovision, "" for none; the caller answers it with Superseded
	Foreign    bool   // the runtime is another tenant's: nothing was done, and no details are returned
	Moved      bool   // the runtime has left the pool since its place was read: nothing was done
	Unknown    bool   // a tenant asks, and the runtime has no record: nothing was done
}
