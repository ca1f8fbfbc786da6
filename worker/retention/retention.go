// Package retention deletes the records of runtimes that were released long ago (rule 14 of docs/protocol.md).
package retention

import (
	"context"
	"iter"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// Ledger is the ledger as retention uses it; package storage implements it.
type Ledger interface {
	// OfRuntime reads every stored reply of a runtime, in the order of the stream.
	OfRuntime(ctx context.Context, runtimeID string, visit func(events.Stored) error) error
	// FactsAfter visits the replies that were stored after a sequence, without sealed ones. A
	// message that it cannot read comes as a Fact with Foreign alone.
	FactsAfter(ctx context.Context, sequence uint64, f func(storage.Fact) error) error
	// Remove deletes the reply of a subject if its sequence in the stream is at most upTo.
	Remove(ctx context.Context, subject string, upTo uint64) error
	// Forget deletes the replies of a runtime up to a sequence of the stream.
	Forget(ctx context.Context, runtimeID string, upTo uint64) error
	// Backlog returns the range of the published events that are not settled.
	Backlog(ctx context.Context) (storage.Backlog, error)
}

// Records are the records in Redis; package counters implements this interface. Every method but Pools may return
// account.ErrNotBuilt. Two calls with the same arguments leave the records as one call does.
type Records interface {
	Pools(ctx context.Context) ([]string, error)
	Runtimes(ctx context.Context, pool string) iter.Seq2[account.NamedRuntime, error]
	Places(ctx context.Context, bucket string) iter.Seq2[account.NamedPlace, error]
	Place(ctx context.Context, runtime string) (account.Place, error)
	RuntimeIn(ctx context.Context, pool, runtime string) (account.Runtime, error)
	Binding(ctx context.Context, pool, binding string) (account.Record, error)
	// Forget drops the record of a runtime if it has this sequence and no account, and reports
	// whether it did.
	Forget(ctx context.Context, pool, runtime string, sequence int64) (bool, error)
	// BeginForgetting replaces the entry of a runtime by a tentative one if it still is was, the entry that was read
	// (the zero Place for none). It returns the tentative entry, or the zero Place if it has replaced nothing. A request
	// that asks for the place makes a tentative entry permanent.
	BeginForgetting(ctx context.Context, runtime string, was account.Place) (account.Place, error)
	// MovePlace replaces the entry of a runtime by to if it still is from, and reports whether it did.
	MovePlace(ctx context.Context, runtime string, from, to account.Place) (bool, error)
	// ForgetPlace drops the entry of a runtime if it still is p, and reports whether it did.
	ForgetPlace(ctx context.Context, runtime string, p account.Place) (bool, error)
}

// Inventory reads the present clusters, and the labels of accounts; package gardener implements it.
type Inventory interface {
	// EachShoot calls f with each Shoot of the API. It calls restart before, and again if it begins anew.
	EachShoot(ctx context.Context, restart func(), f func(engine.Shoot)) error
	// Cached returns a binding from the watch, and whether it exists.
	Cached(name string) (engine.Binding, bool)
}

// Blocks reads the network blocks of clusters; package blocks implements it.
type Blocks interface {
	// Applied returns the blocks of a cluster. It may return account.ErrNotBuilt.
	Applied(ctx context.Context, cluster string) ([]network.Applied, error)
}

// Room is the waiting room as retention uses it; package storage implements it.
type Room interface {
	// Addresses visits the addresses in the subjects of a runtime's waiting requests, or of all
	// if runtimeID is "". foreign is set if the message cannot be read.
	Addresses(ctx context.Context, runtimeID string, visit func(a events.WaitingAddress, foreign *events.Foreign) error) error
}

// Purger forgets runtimes that were released long ago (rule 14). Every worker runs one. A pass is idempotent,
// and the next pass finishes one that was interrupted.
type Purger struct {
	Ledger   Ledger
	Records  Records
	Gardener Inventory
	Room     Room
	Rebuild  account.Rebuilder
	Blocks   Blocks       // nil without network ranges
	Notes    ranges.Notes // nil without ClusterConfigs
	// Leftover frees the network blocks of a runtime before its last reply is deleted. It is set only without network
	// ranges: nothing else then frees blocks that were allotted while there were some. It may return account.ErrNotBuilt,
	// which is ignored.
	Leftover func(ctx context.Context, runtime string) error

	// Keep is how long the replies of a released runtime are kept after the newest of them.
	Keep time.Duration
	// Every is the pause between two passes. Defaults to an hour. Each pause is up to a tenth
	// longer (jitter), and the first pass begins at a random time within it, so that workers do
	// not all read at once.
	Every time.Duration
	// Settle is how long the directory's entry is tentative before it is dropped. It has to be longer than a
	// handler may work on an event without reporting progress. Defaults to a minute.
	Settle time.Duration
	// Limit is the most of each that a pass handles: replies that say that a runtime is gone, tombstones of runtimes
	// without replies (about Limit), and replies that the type apart collects. Defaults to 10,000.
	Limit int

	Observer observe.Observer
	Now      func() time.Time // Defaults to time.Now.
}

func (r *Purger) init() {
	if r.Every == 0 {
		r.Every = time.Hour
	}
	if r.Settle == 0 {
		r.Settle = time.Minute
	}
	if r.Limit == 0 {
		r.Limit = 10_000
	}
	if r.Now == nil {
		r.Now = time.Now
	}
}

// Run calls Once periodically until ctx ends.
func (r *Purger) Run(ctx context.Context) {
	r.init()
	loop.Run(ctx, loop.Options{Every: r.Every, Jitter: 0.1, Start: loop.Spread}, func(ctx context.Context) error {
		r.Once(ctx)
		return nil
	})
}

// sleep waits for the pause. It returns false if ctx ends first.
func (r *Purger) sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// Once makes passes until one has come to the last old reply, has failed, or ctx ends. It reports each to the observer,
// except one during which ctx has ended.
func (r *Purger) Once(ctx context.Context) {
	r.init()
	for after, more := (reached{}), true; more && ctx.Err() == nil; {
		begin := r.Now()
		info := observe.Retention{Kept: map[observe.KeptBecause]int{}}
		after, more, info.Err = r.pass(ctx, after, &info)
		info.Duration = r.Now().Sub(begin)
		if ctx.Err() == nil && r.Observer.OnRetention != nil {
			r.Observer.OnRetention(ctx, info)
		}
		more = more && info.Err == nil
	}
}
