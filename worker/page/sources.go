package page

import (
	"context"
	"iter"
	"net/netip"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
)

// Accounts are the bindings as a cache has them.
type Accounts interface {
	All() iter.Seq[engine.Binding]
}

// Records are what Redis has of a pool. Every method may return the connection's
// error; Bindings and Queue account.ErrNotBuilt besides.
type Records interface {
	// Status gives the zero Status for a pool that is not built.
	Status(ctx context.Context, pool string) (account.Status, error)
	Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error]
	// Queue gives those who wait, in the order in which they are to be served.
	Queue(ctx context.Context, pool string) ([]account.Waiter, error)
}

// Room is where requests wait.
type Room interface {
	// Each visits them, oldest first, until visit returns an error.
	Each(ctx context.Context, visit func(events.WaitingRequest) error) error
}

// Ledger is the stream of replies.
type Ledger interface {
	// Last gives the reply that is stored under a subject, and whether there is one.
	Last(ctx context.Context, subject string) (events.Stored, bool, error)
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
	Ledger   Ledger
	Networks Networks // nil where no ranges are handed out: nothing is shown of them
	Subjects events.Subjects
}
