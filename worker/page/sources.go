package page

import (
	"context"
	"iter"
	"net/netip"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/history"
)

// Accounts are the bindings as a cache has them.
type Accounts interface {
	All() iter.Seq[engine.Binding]
}

// Records are what Redis has of a pool. Every method may return the connection's
// error; Bindings and Queue account.ErrNotBuilt besides.
type Records interface {
	// Status returns the zero Status for a pool that is not built.
	Status(ctx context.Context, pool string) (account.Status, error)
	Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error]
	// Queue returns those who wait, in the order in which they are to be served.
	Queue(ctx context.Context, pool string) ([]account.Waiter, error)
}

// Room is where requests wait.
type Room interface {
	// Each visits them, oldest first, until visit returns an error.
	Each(ctx context.Context, visit func(events.WaitingRequest) error) error
}

// Waits are the requests that wait, found by whose they are.
type Waits interface {
	// Matching visits the requests that an address names, "" in it for any, oldest first.
	Matching(ctx context.Context, of events.WaitingAddress, visit func(events.WaitingRequest) error) error
}

// Ledger is the stream of replies.
type Ledger interface {
	// Last returns the reply that is stored under a subject, and whether there is one.
	Last(ctx context.Context, subject string) (events.Stored, bool, error)
}

// Replies are those of the ledger, by whose they are and where they are. What cannot be read
// comes as Stored.Foreign.
type Replies interface {
	OfRuntime(ctx context.Context, runtimeID string, visit func(events.Stored) error) error
	OfRequest(ctx context.Context, requestID string, visit func(events.Stored) error) error
	// At reads the reply at a sequence of the ledger, if it is there still.
	At(ctx context.Context, sequence uint64) (events.Stored, bool, error)
}

// Runtimes are the runtimes as Redis has them.
type Runtimes interface {
	// Runtime returns both zero for an unknown one. account.ErrNotBuilt.
	Runtime(ctx context.Context, id string) (account.Place, account.Runtime, error)
}

// Networks are the ranges that clusters get theirs out of.
type Networks interface {
	Parents(ctx context.Context) ([]Parent, error)
}

// Parent is a range, and what of it is in use.
type Parent struct {
	Name string
	CIDR netip.Prefix
	Used []netip.Prefix // inside CIDR, in no order; one inside another counts once
}

// Settings are the configuration of now, as far as it is shown.
type Settings interface {
	Rules() *rule.Ruleset
	// Terms say how many clusters an account of the tenant may have.
	Terms(tenant, provider string) account.Terms
}

// Sources are where the page reads.
type Sources struct {
	Accounts Accounts
	Records  Records
	Room     Room
	Waits    Waits
	Ledger   Ledger
	Replies  Replies
	Facts    history.Ledger // nil: nothing is shown of the past
	Runtimes Runtimes
	Networks Networks // nil where no ranges are handed out: nothing is shown of them
	Subjects events.Subjects
	// Exhaustions visits the pools that have a forecast, with the seconds until no tenant
	// can claim an account of them; +Inf is never. nil knows none.
	Exhaustions func(visit func(pool string, seconds float64))
	// Keep is how long the ledger keeps the replies of a released runtime.
	Keep time.Duration
	// Checks tell which parts of the landscape fail.
	Checks []Check
	// Watched are checks of parts that a reading finds out about by itself. Watch runs them too.
	Watched []Check

	past *history.Follower
}

// Check is a look at a part that the worker depends on.
type Check struct {
	Part Part
	Run  func(context.Context) error
}
