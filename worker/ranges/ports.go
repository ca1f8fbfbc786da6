package ranges

import (
	"context"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// Allocator allots network blocks to clusters, which are identified by their runtime: package blocks. Every
// method may return account.ErrNotBuilt. All of them are idempotent.
type Allocator interface {
	// Acquire applies rules to a cluster in the name of a request, all or none, except those that it
	// skips. Errors: an engine.Error with CodeNetworkExhausted if there is no room for one of them;
	// network.ErrUnknownParent if Redis has the parents of another configuration.
	Acquire(ctx context.Context, cluster, request string, rules []network.Rule) (network.Acquired, error)
	// Return ends the hold of a request with all its attempts, or of one network.Attempt. It frees
	// the blocks on which no other request or attempt relies.
	Return(ctx context.Context, cluster, request string) (network.Returned, error)
	// Release frees all blocks of a cluster, and returns them.
	Release(ctx context.Context, cluster string) ([]network.Applied, error)
}

// Notes records the network blocks of clusters where the Cluster resources live, as ClusterConfigs and in
// annotations of Clusters: package clusterconfig. A worker writes nothing else there. Errors: engine.ErrConflict
// (another writer was faster), engine.ErrUnknownResult (the write may have happened), engine.ErrUnavailable
// (retry later), network.ErrRefused (permanent).
type Notes interface {
	// Write stores a note. It returns the number of changed objects, and the objects of other
	// owners, which it does not change.
	Write(ctx context.Context, n network.Note) (network.Noted, error)
	// Remove removes what is recorded of the note's runtime, and returns the number of changed objects.
	Remove(ctx context.Context, n network.Note) (int, error)
	// All reads all notes, also those of other allocators.
	All(ctx context.Context) (network.Notes, error)
}

// Ledger is the ledger of all runtimes: package storage.
type Ledger interface {
	// Last returns the last message of a subject, and whether there is one. The error is
	// events.ErrUnknownReply for a reply of a newer version.
	Last(ctx context.Context, subject string) (events.Stored, bool, error)
	// Publish stores a reply if the subject's last sequence is expect, 0 for no message, and
	// returns its sequence. Otherwise the error is storage.ErrWrongLastSequence. It is
	// storage.ErrUnstorable if the reply can never be stored.
	Publish(ctx context.Context, subject string, r events.Reply, expect uint64) (uint64, error)
	// EachAfter visits the replies that were stored after a sequence, in the order of the stream, and
	// skips those that it cannot read.
	EachAfter(ctx context.Context, sequence uint64, f func(events.Stored) error) error
	// End returns the highest sequence that the ledger has assigned.
	End(ctx context.Context) (uint64, error)
	// OfRuntime visits the stored replies of a runtime, in the order of the stream. It may leave out
	// those that are stored after it has found the first.
	OfRuntime(ctx context.Context, runtimeID string, f func(events.Stored) error) error
}
