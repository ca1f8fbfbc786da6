package worker

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/dirtying"
	"github.com/hap-worker/hap-worker/worker/serving"
)

// Counters are what Redis records (package counters): the directory, which has the pool of each runtime, and
// the counts and records of each pool. Every method may return an error of the connection. Every method but
// Status may return account.ErrNotBuilt: the pool or the directory has to be rebuilt first. All methods are
// idempotent.
type Counters interface {
	// Runtimes and their pools.

	// Locate returns the place of a runtime for a provision. A runtime without a place gets pool as its place. The
	// place of a runtime that was deprovisioned before it had a pool, or is about to be forgotten, is Gone.
	Locate(ctx context.Context, runtime, pool string) (account.Place, error)
	// Place returns the place of a runtime, or the zero Place if it is unknown.
	Place(ctx context.Context, runtime string) (account.Place, error)
	// Depart returns the place of a runtime for a deprovision: the pool to release it in. A runtime without
	// a place is recorded as gone, and its place is Gone.
	Depart(ctx context.Context, runtime string) (account.Place, error)
	// MovePlace sets the runtime's place to the argument to if the place still equals the argument from, and
	// reports whether it did (rule 16).
	MovePlace(ctx context.Context, runtime string, from, to account.Place) (bool, error)

	// RuntimeIn returns the record of a runtime in a pool, or the zero Runtime if there is none.
	RuntimeIn(ctx context.Context, pool, runtime string) (account.Runtime, error)

	// Which binding a runtime gets.

	// Assign decides which binding the runtime gets (rule 3 of docs/protocol.md). It returns
	// account.ErrRebuilt if the pool no longer has the epoch of the request.
	Assign(ctx context.Context, pool string, r account.Request) (account.Decision, error)
	// LocateAndAssign runs Locate and Assign in one script. The decision has no outcome if the runtime's
	// place is Gone or another pool, or the runtime came from another pool, or if Redis is a cluster. Then
	// nothing has changed, and the caller has to call Locate and Assign.
	LocateAndAssign(ctx context.Context, pool string, r account.Request) (account.Decision, error)
	// Status returns the state of a pool as a whole, or the zero Status if it is not built.
	Status(ctx context.Context, pool string) (account.Status, error)

	// What becomes of a claim that is not confirmed.

	// Confirm records that the label carries the claim, and reports whether the request may be
	// answered with it (rule 5). If not, nothing has changed, and the caller starts over at Assign.
	Confirm(ctx context.Context, pool string, c account.Claim) (bool, error)
	// Revoke undoes a claim that cannot be confirmed, for example because the label is another
	// tenant's, and reports whether it changed anything (rule 6). It changes nothing if the binding is
	// confirmed by now, or if the claim no longer stands.
	Revoke(ctx context.Context, pool string, c account.Claim) (bool, error)

	// The end of requests, assignments and runtimes.

	// Refuse ends a waiting request at its deadline (rule 12). The outcome is Refused or, if nothing has changed,
	// Superseded (the runtime is gone), Foreign (another tenant's), Assigned (it has a binding) or Moved (left the pool).
	Refuse(ctx context.Context, place account.Place, runtime, request, tenant string) (account.Decision, error)
	// Leave takes a runtime without an account out of its pool. It returns the sequence under
	// which the runtime left, and whether it did (rule 16). A runtime stays if it has an account or is gone,
	// if it waits by another request or for another tenant, or if this request was refused.
	Leave(ctx context.Context, place account.Place, runtime, request, tenant string) (sequence int64, left bool, err error)
	// TakeBack undoes the assignment or the waiting of a request whose stored answer is no assignment (rule 11). The
	// assignment stays if other requests of the runtime rely on it too, if it was adopted from a Shoot, or if it is
	// another tenant's.
	TakeBack(ctx context.Context, pool, runtime, request, tenant string) error
	// ReleaseRuntime marks a runtime as gone and, if it was on a binding, decrements that binding's
	// count (rule 7). tenant is the one that asks, "" if the event names none. Nothing changes if the
	// runtime is another tenant's (the Departure is Foreign) or has left the pool (it is Moved).
	// If a tenant asks and there is no record, nothing changes either (it is Unknown).
	ReleaseRuntime(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error)
	// ReleaseUnknown is ReleaseRuntime for a runtime whose Departure was Unknown, and for which no other
	// tenant's request waits.
	ReleaseUnknown(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error)

	// Cleaned bindings, returned to their pools.

	// InUse returns the number of runtimes on a binding (rule 9).
	InUse(ctx context.Context, pool, binding string) (int, error)
	// MarkFreed makes a cleaned binding claimable, and reports whether it did (rule 9). It changes only a
	// draining or dirtying binding without runtimes, of that generation.
	MarkFreed(ctx context.Context, pool, binding string, generation int64) (bool, error)

	dirtying.Records
	serving.Queue
}

// Gardener are the bindings and the Shoots: package gardener.
type Gardener interface {
	// Suggestions of a cache, which may be out of date.

	// Claimable returns the tenant's own bindings that may gain runtimes, then up to n unclaimed
	// ones, best first. It also returns whether there are no others and the cache has synced.
	// internalTenant includes internal bindings of the tenant.
	Claimable(pool engine.Pool, tenant string, internalTenant bool, n int) ([]engine.Binding, bool)
	// Shared returns the bindings of a shared pool that may gain runtimes.
	Shared(pool engine.Pool) []engine.Binding
	// Barred returns the names of the tenant's and the unclaimed bindings that must not gain runtimes: dirty ones, those
	// that are held back, and internal ones unless internalTenant is true.
	Barred(pool engine.Pool, tenant string, internalTenant bool) []string

	// One binding.

	// Cached returns a binding from the cache, and whether the cache has it.
	Cached(name string) (engine.Binding, bool)
	// Get reads a binding from the API. Errors: an engine.Error with CodeUnknownBinding,
	// engine.ErrUnavailable.
	Get(ctx context.Context, name string) (engine.Binding, error)
	// Referrer returns the kind and name by which a Shoot refers to the binding. For a Secret, these
	// are of the CredentialsBinding or SecretBinding that refers to the Secret; if there is none,
	// the error is an engine.Error with CodeUnknownBinding. If the API cannot be asked, the error is
	// engine.ErrUnavailable.
	Referrer(ctx context.Context, binding string) (kind, name string, err error)

	// Patches of bindings, with the resourceVersion of the binding that the caller has seen. Errors:
	// an engine.Error with CodeUnknownBinding, engine.ErrConflict (another writer was faster),
	// engine.ErrUnknownResult (the write may have happened), engine.ErrUnavailable (retry later),
	// and engine.ErrRefused (the API rejects the write), which wraps ErrUnavailable.

	// Claim writes the mark on the binding: tenant, generation and epoch.
	Claim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error)
	// Free removes tenantName and dirty, and records the release request.
	Free(ctx context.Context, seen engine.Binding, request string) (engine.Binding, error)

	dirtying.Bindings
	dirtying.Shoots
}

// Ledger is the stream of replies: package storage.
type Ledger interface {
	// Last returns the last message of a subject, and whether there is one. A message that is not
	// a reply is returned too; a reply may replace it. The error is events.ErrUnknownReply for a
	// reply of a newer version that may be final: it must not be replaced.
	Last(ctx context.Context, subject string) (events.Stored, bool, error)
	// Publish stores a reply if the subject's last sequence is expect, 0 for no message, and
	// returns its sequence. After storage.ErrWrongLastSequence and storage.ErrUnstorable it is not
	// stored; after any other error it may be.
	Publish(ctx context.Context, subject string, r events.Reply, expect uint64) (uint64, error)
}

// Room is the waiting room: package storage.
type Room interface {
	// Enter stores a request and returns its deadline. A request that is already stored does not
	// change.
	Enter(ctx context.Context, w storage.WaitingRequest) (deadline time.Time, err error)
	// Leave removes a request, if it is there.
	Leave(ctx context.Context, subject string) error
	// OfRuntime visits the requests of one runtime, oldest first.
	OfRuntime(ctx context.Context, runtimeID string, visit func(storage.WaitingRequest) error) error
	serving.Room
}

// copier sends copies of replies to the inboxes that events name. The copies are not stored.
type copier interface {
	Copy(ctx context.Context, inbox string, r events.Reply) error
}

// Clock returns the current time; tests replace it.
type Clock func() time.Time
