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
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/queued"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/history"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Accounts are the cached bindings.
type Accounts interface {
	All() iter.Seq[engine.Binding]
}

// Records are the records in Redis. Every method may return the connection's error; Bindings, Queue and
// Runtime may also return account.ErrNotBuilt.
type Records interface {
	// Pools returns the names of all pools that Redis knows, built or not.
	Pools(ctx context.Context) ([]string, error)
	// Status returns the zero Status for a pool that is not built.
	Status(ctx context.Context, pool string) (account.Status, error)
	Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error]
	// Queue returns the waiting runtimes, in the order in which they are served.
	Queue(ctx context.Context, pool string) ([]account.Waiter, error)
	// Runtime returns zero values for an unknown runtime.
	Runtime(ctx context.Context, id string) (account.Place, account.Runtime, error)
}

// Room is the waiting room.
type Room interface {
	// Each visits the waiting requests, oldest first, until visit returns an error.
	Each(ctx context.Context, visit func(storage.WaitingRequest) error) error
	// Matching visits the requests that match an address, oldest first. An empty field matches all.
	Matching(ctx context.Context, of events.WaitingAddress, visit func(storage.WaitingRequest) error) error
}

// Ledger reads the stream of replies. A message that cannot be decoded has Stored.Foreign set; for one that may be a
// newer version's final reply, Last and At return events.ErrUnknownReply.
type Ledger interface {
	// Last returns the last reply on a subject, and whether there is one.
	Last(ctx context.Context, subject string) (events.Stored, bool, error)
	OfRuntime(ctx context.Context, runtimeID string, visit func(events.Stored) error) error
	OfRequest(ctx context.Context, requestID string, visit func(events.Stored) error) error
	Under(ctx context.Context, filter string, visit func(events.Stored) error) error
	// At returns the reply at a sequence of the ledger, and whether it still exists.
	At(ctx context.Context, sequence uint64) (events.Stored, bool, error)
}

// Parent is a parent range and its used blocks.
type Parent struct {
	Name string
	CIDR netip.Prefix
	Used []netip.Prefix // inside CIDR, in any order; a block may contain another
}

// Settings is the part of the current configuration that the page shows.
type Settings interface {
	Rules() *rule.Ruleset
	// Terms returns the terms on which the tenant gets accounts of a provider.
	Terms(tenant, provider string) account.Terms
}

// Sources are the stores that the page reads.
type Sources struct {
	Accounts Accounts
	Records  Records
	Room     Room
	Ledger   Ledger
	Facts    history.Ledger // nil: the past is not shown
	// Letters visits the newest dead letters: the method Newest of dead.Letters. nil: they are not searched.
	Letters func(ctx context.Context, since time.Time, most uint64, visit func(dead.Letter) error) (streams.Extent, error)
	// Queued returns the unsettled events within the last most sequences of their stream, oldest first. nil:
	// they are not searched.
	Queued func(ctx context.Context, most uint64) ([]queued.Event, streams.Extent, error)
	// Networks are the parent ranges of clusters' network blocks; nil if no network ranges are allotted.
	Networks interface {
		Parents(ctx context.Context) ([]Parent, error)
	}
	Subjects events.Subjects
	// Exhaustions visits the pools that have a forecast, with the seconds until no free account is left; +Inf
	// means never. nil if there are no forecasts.
	Exhaustions func(visit func(pool string, seconds float64))
	// Keep is how long the ledger keeps the replies of a released runtime.
	Keep time.Duration
	// Circuits returns the circuits of this worker, open or closed. nil: none is shown.
	Circuits func() []observe.Circuit
	// Checks find out which dependencies fail.
	Checks []Check
	// Watched are checks that only Watch runs. A reading does not need them: it reads from these parts, and so
	// notices their failures.
	Watched []Check

	past *history.Follower
}

// Check is a check of one dependency. Run returns nil if the dependency works, and otherwise its failure.
type Check struct {
	Part Part
	Run  func(context.Context) error
}
