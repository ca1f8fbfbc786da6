package ranges

import (
	"context"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// Allocator allots network blocks to clusters, which are named by their runtime:
// package counters. Every method may return account.ErrNotBuilt; all of them can be
// repeated.
type Allocator interface {
	// Acquire applies rules to a cluster on behalf of a request, all or none. Errors: an
	// engine.Error with CodeNetworkExhausted if there is no room for one of them;
	// network.ErrUnknownParent if Redis has the parents of another configuration.
	Acquire(ctx context.Context, cluster, request string, rules []network.Rule) (network.Acquired, error)
	// Return takes back what the request, with every attempt at it, or one
	// network.Attempt alone relied on and no other does.
	Return(ctx context.Context, cluster, request string) (network.Returned, error)
	// Release frees all that a cluster has.
	Release(ctx context.Context, cluster string) ([]network.Applied, error)
}

// Networks returns the network configuration of now; nil where there is none.
type Networks interface{ Config() *network.Config }

// Notes writes down, where the Cluster resources live, which network blocks a
// cluster was given: package gardener. It is all that a worker writes there. Errors:
// engine.ErrConflict (another writer wrote meanwhile), engine.ErrUnknownResult (it may be
// written), engine.ErrUnavailable (not now), network.ErrRefused (never).
type Notes interface {
	// Write makes what is written that of a note; it tells what is another's and stays.
	Write(ctx context.Context, n network.Note) (network.Noted, error)
	// Remove takes back what was written of the note's runtime, and returns how much.
	Remove(ctx context.Context, n network.Note) (int, error)
	// All reads all that is written, by whatever allocator.
	All(ctx context.Context) (network.Notes, error)
}

// RuntimeLedger is the ledger of one runtime: package events.
type RuntimeLedger interface {
	// OfRuntime reads every stored reply of a runtime, in the order of the stream.
	OfRuntime(ctx context.Context, runtimeID string, visit func(events.Stored) error) error
}

// Ledger is the ledger of all runtimes: package events.
type Ledger interface {
	// Last returns the reply that is stored under a subject, and whether there is one.
	// events.ErrUnknownReply for one of a newer version.
	Last(ctx context.Context, subject string) (events.Stored, bool, error)
	// Publish stores a reply where expect is the subject's last sequence, 0 for none;
	// else events.ErrWrongLastSequence.
	Publish(ctx context.Context, subject string, r events.Reply, expect uint64) (uint64, error)
	// Each reads every stored reply, from the first to the last there is now.
	Each(ctx context.Context, f func(events.Stored) error) error
}

// Rebuilder asks for a rebuild of what Redis has lost: package rebuild.
type Rebuilder interface {
	Wanted(pool string)
}
