// Package retention forgets runtimes that were released long ago: rule 14 of
// docs/protocol.md.
package retention

import (
	"context"
	"iter"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// Ledger is the ledger as retention uses it: package events.
type Ledger interface {
	ranges.RuntimeLedger
	// FactsAfter reads what every reply says that was stored after a sequence, with its place and time.
	FactsAfter(ctx context.Context, sequence uint64, f func(events.Fact) error) error
	// Remove deletes the reply on a subject up to a sequence of the stream.
	Remove(ctx context.Context, subject string, upTo uint64) error
	// Forget deletes the replies of a runtime up to a sequence of the stream.
	Forget(ctx context.Context, runtimeID string, upTo uint64) error
	// Backlog returns the extent of the events that are published and not settled.
	Backlog(ctx context.Context) (events.Backlog, error)
}

// Records are what Redis remembers of runtimes that are gone: package counters.
// Every method may return account.ErrNotBuilt; all of them can be repeated.
type Records interface {
	Pools(ctx context.Context) ([]string, error)
	Runtimes(ctx context.Context, pool string) iter.Seq2[account.NamedRuntime, error]
	Places(ctx context.Context, bucket string) iter.Seq2[account.NamedPlace, error]
	Place(ctx context.Context, runtime string) (account.Place, error)
	RuntimeIn(ctx context.Context, pool, runtime string) (account.Runtime, error)
	Binding(ctx context.Context, pool, binding string) (account.Record, error)
	// Locate and Depart give the runtime's place, setting a pool or a tombstone where
	// it has none.
	Locate(ctx context.Context, runtime, pool string) (account.Place, error)
	Depart(ctx context.Context, runtime string) (account.Place, error)
	// Forget drops a record that is gone under this sequence.
	Forget(ctx context.Context, pool, runtime string, sequence int64) (bool, error)
	// ForgetPlace drops an entry of the directory that still is this one.
	ForgetPlace(ctx context.Context, runtime string, p account.Place) (bool, error)
}

// Inventory are the clusters that there are: package gardener.
type Inventory interface {
	// Shoots returns all Shoots, live.
	Shoots(ctx context.Context, f func(engine.Shoot) error) error
}

// Blocks are the network blocks that clusters have: package counters.
type Blocks interface {
	// Applied returns what a cluster has. account.ErrNotBuilt.
	Applied(ctx context.Context, cluster string) ([]network.Applied, error)
}

// Room is where requests wait: package events.
type Room interface {
	// Addresses visits the subjects of a runtime's requests, or of all with "". foreign
	// is set where a message cannot be read.
	Addresses(ctx context.Context, runtimeID string, visit func(a events.WaitingAddress, foreign *events.Foreign) error) error
}

// Rebuilder asks for a rebuild of what Redis has lost: package rebuild.
type Rebuilder interface {
	Wanted(pool string)
}

// Purger forgets runtimes that were released long ago: rule 14. Every worker has
// one, each pass can be repeated, and one that dies is finished by the next.
type Purger struct {
	Ledger  Ledger
	Records Records
	Shoots  Inventory
	Room    Room
	Rebuild Rebuilder
	Blocks  Blocks       // nil without network ranges
	Notes   ranges.Notes // nil where nothing is written beside the ledger

	// Keep is how long the replies of a released runtime are kept.
	Keep time.Duration
	// Every is the time between two passes. Defaults to an hour; each is put off by up
	// to a tenth, and the first comes at any moment within it, so that workers do not
	// all read at once.
	Every time.Duration
	// Settle is longer than any handler works on an event without a sign of life: so
	// long a tombstone outlives the directory's entry. Defaults to a minute.
	Settle time.Duration
	// Limit is how many runtimes a pass looks at. Defaults to 10,000.
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

// Run forgets every now and then until ctx ends.
func (r *Purger) Run(ctx context.Context) {
	r.init()
	loop.Run(ctx, loop.Options{Every: r.Every, Jitter: 0.1, Start: loop.Spread}, func(ctx context.Context) error {
		r.Once(ctx)
		return nil
	})
}

// sleep reports whether ctx goes on.
func (r *Purger) sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// Once looks at everything that there is to forget, pass by pass, and tells the
// listener of each.
func (r *Purger) Once(ctx context.Context) {
	r.init()
	for after, more := (candidate{}), true; more && ctx.Err() == nil; {
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
