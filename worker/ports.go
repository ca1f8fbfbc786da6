package worker

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/dead"
	"github.com/hap-worker/hap-worker/worker/dirtying"
	"github.com/hap-worker/hap-worker/worker/serving"
)

// Every method of what Counters have may return account.ErrNotBuilt (the pool has to be
// rebuilt first) or the connection's error; all of them can be repeated.

// Directory knows where runtimes are.
type Directory interface {
	// Locate says which pool a runtime belongs to: pool, unless an earlier request
	// put it into another one or it is gone.
	Locate(ctx context.Context, runtime, pool string) (account.Place, error)
	// Place says where a runtime is; the zero Place for an unknown one.
	Place(ctx context.Context, runtime string) (account.Place, error)
	// Depart says where a runtime that goes is to be looked for.
	Depart(ctx context.Context, runtime string) (account.Place, error)
	// MovePlace makes to the runtime's place, if it still is from, and reports whether it did: rule 16.
	MovePlace(ctx context.Context, runtime string, from, to account.Place) (bool, error)
}

// Assigner decides which binding a runtime gets.
type Assigner interface {
	// Assign decides, rule 3 of docs/protocol.md. Besides, account.ErrRebuilt.
	Assign(ctx context.Context, pool string, r account.Request) (account.Decision, error)
	// LocateAndAssign is Locate and Assign in one step. The decision has no outcome where
	// the runtime is gone or belongs to another pool, and where it takes two steps.
	LocateAndAssign(ctx context.Context, pool string, r account.Request) (account.Decision, error)
	// Status tells of a pool as a whole; the zero Status where it is not built.
	Status(ctx context.Context, pool string) (account.Status, error)
}

// Confirmer settles claims between the script that made them and their answer.
type Confirmer interface {
	// Confirm reports whether the claim may be answered, rule 5.
	Confirm(ctx context.Context, pool string, c account.Claim) (bool, error)
	// Revoke undoes a claim whose binding turned out to be another's, rule 6.
	Revoke(ctx context.Context, pool string, c account.Claim) (bool, error)
}

// Ender ends what a request or a runtime holds.
type Ender interface {
	// Refuse ends a request that found nothing, rule 12.
	Refuse(ctx context.Context, place account.Place, runtime, request string) (account.Decision, error)
	// Leave takes a runtime out of the pool of its place that has no account there, and reports whether it has left, and
	// under which number: rule 16.
	Leave(ctx context.Context, place account.Place, runtime, request, tenant string) (sequence int64, left bool, err error)
	// TakeBack undoes what a request holds whose stored answer is a refusal, rule 11.
	TakeBack(ctx context.Context, pool, runtime, request string) error
	// ReleaseRuntime counts a runtime down, rule 7, for the tenant that asks, "" where none is named.
	ReleaseRuntime(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error)
}

// Freer returns cleaned bindings to their pools.
type Freer interface {
	// InUse returns the number of runtimes on a binding, rule 9.
	InUse(ctx context.Context, pool, binding string) (int, error)
	// MarkFreed makes a cleaned binding claimable, rule 9.
	MarkFreed(ctx context.Context, pool, binding string, generation int64) (bool, error)
}

// Counters are the counts and records of all pools: package counters.
type Counters interface {
	Directory
	Assigner
	Confirmer
	Ender
	Freer
	dirtying.Records
	serving.Queue
}

// Suggester offers bindings out of a cache: quick, and at times out of date.
type Suggester interface {
	// Claimable returns bindings that carry the tenant's name and up to n unclaimed
	// ones, best first, and whether these are all. Internal ones that carry its name
	// are among them for an internal tenant.
	Claimable(pool engine.Pool, tenant string, internalTenant bool, n int) ([]engine.Binding, bool)
	// Shared returns the bindings of a shared pool that may gain runtimes.
	Shared(pool engine.Pool) []engine.Binding
	// Barred returns the tenant's own bindings that must not gain runtimes.
	Barred(pool engine.Pool, tenant string, internalTenant bool) []string
}

// Reader reads one binding.
type Reader interface {
	// Cached returns a binding as the cache has it.
	Cached(name string) (engine.Binding, bool)
	// Get returns a binding as its source has it. The errors are those of Labeller.
	Get(ctx context.Context, name string) (engine.Binding, error)
	// Referrer returns the kind and the name that a Shoot has to name in order to use a
	// binding: those of the binding itself, and for a Secret those of what refers to it; an
	// engine.Error with CodeUnknownBinding where nothing does.
	Referrer(ctx context.Context, binding string) (kind, name string, err error)
}

// Labeller writes bindings at their source. Errors: an engine.Error
// with CodeUnknownBinding, engine.ErrConflict (another writer wrote meanwhile),
// engine.ErrUnknownResult (the write may or may not have happened),
// engine.ErrUnavailable (not now).
type Labeller interface {
	// Claim writes the mark on the binding as it was seen.
	Claim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error)
	// Free takes tenantName and dirty off, in the name of a release request.
	Free(ctx context.Context, seen engine.Binding, request string) (engine.Binding, error)
}

// Gardener has what the worker needs of Gardener: package gardener.
type Gardener interface {
	Suggester
	Reader
	Labeller
	dirtying.Bindings
	dirtying.Shoots
}

// Ledger is the stream of replies: package events.
type Ledger interface {
	// Last returns the reply that is stored under a subject, and whether there is one:
	// also what is no reply, which a reply may replace. events.ErrUnknownReply is one of
	// a newer version, which nothing may replace.
	Last(ctx context.Context, subject string) (events.Stored, bool, error)
	// Publish stores a reply where expect is the subject's last sequence, 0 for
	// none; else events.ErrWrongLastSequence. Another error leaves open whether it
	// is stored.
	Publish(ctx context.Context, subject string, r events.Reply, expect uint64) (uint64, error)
}

// WaitingRoom is where a request begins and ends to wait: package events.
type WaitingRoom interface {
	// Enter stores a request, and returns its deadline; one that is there stays as it is.
	Enter(ctx context.Context, w events.WaitingRequest) (deadline time.Time, err error)
	// Leave removes a request, if it is there.
	Leave(ctx context.Context, subject string) error
	// OfRuntime visits the requests of one runtime, oldest first.
	OfRuntime(ctx context.Context, runtimeID string, visit func(events.WaitingRequest) error) error
}

// Room is the waiting room as a whole: package events.
type Room interface {
	WaitingRoom
	serving.Room
}

// DeadLetterStore keeps what can never be processed.
type DeadLetterStore interface {
	// Put stores a copy of the message with the reason; repeating it does no harm.
	Put(ctx context.Context, l dead.Event, code engine.Code, reason string) error
}

// Copier sends plain copies of replies to the inboxes that asked for them.
type Copier interface {
	Copy(ctx context.Context, inbox string, r events.Reply) error
}

// Rebuilder builds again what Redis has lost.
type Rebuilder interface {
	// Wanted asks for a rebuild of pool and of everything else that is not built. It does not wait.
	Wanted(pool string)
}

// Clock returns the time; tests put their own in.
type Clock func() time.Time
