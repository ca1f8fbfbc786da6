package worker

import (
	"context"
	"iter"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// RetainedLedger is the ledger as retention uses it: package events.
type RetainedLedger interface {
	RuntimeArchive
	// Facts reads what every stored reply says of its runtime, with its time.
	Facts(ctx context.Context, f func(events.Fact) error) error
	// Forget deletes the replies of a runtime up to a sequence of the stream.
	Forget(ctx context.Context, runtimeID string, upTo uint64) error
	// Backlog tells what is published and not settled.
	Backlog(ctx context.Context) (events.Backlog, error)
}

// Tombstones are what Redis remembers of runtimes that are gone: package counters.
// Every method may return account.ErrNotBuilt; all of them can be repeated.
type Tombstones interface {
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

// Lodgers are the clusters that there are: package gardener.
type Lodgers interface {
	// Shoots gives all Shoots, live.
	Shoots(ctx context.Context, f func(engine.Shoot) error) error
}

// Blocks are the network blocks that clusters have: package counters.
type Blocks interface {
	// Applied gives what a cluster has. account.ErrNotBuilt.
	Applied(ctx context.Context, cluster string) ([]network.Applied, error)
}

// Retention forgets runtimes that were released long ago: rule 14. Every worker has
// one, each pass can be repeated, and one that dies is finished by the next.
type Retention struct {
	Ledger  RetainedLedger
	Records Tombstones
	Shoots  Lodgers
	Room    Room
	Rebuild Rebuilder
	Blocks  Blocks       // nil without network ranges
	Notes   ClusterNotes // nil where nothing is written beside the ledger

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

	Listener Listener
	Now      Clock // Defaults to time.Now.
}

func (r *Retention) init() {
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
func (r *Retention) Run(ctx context.Context) {
	r.init()
	for pause := rand.N(r.Every); r.sleep(ctx, pause); pause = r.Every + rand.N(r.Every/10+1) {
		r.Once(ctx)
	}
}

// sleep reports whether ctx goes on.
func (r *Retention) sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// Once looks at everything that there is to forget, pass by pass, and tells the
// listener of each.
func (r *Retention) Once(ctx context.Context) {
	r.init()
	for after, more := (candidate{}), true; more && ctx.Err() == nil; {
		begin := r.Now()
		info := RetentionInfo{Kept: map[KeptBecause]int{}}
		after, more, info.Err = r.pass(ctx, after, &info)
		info.Duration = r.Now().Sub(begin)
		if ctx.Err() == nil && r.Listener.OnRetention != nil {
			r.Listener.OnRetention(ctx, info)
		}
		more = more && info.Err == nil
	}
}

// KeptBecause says why a runtime is not forgotten yet although it was released long
// enough ago.
type KeptBecause string

// What keeps a runtime.
const (
	KeptInForce  KeptBecause = "in-force"  // the release is not what is in force
	KeptYounger  KeptBecause = "younger"   // it has a younger reply
	KeptBacklog  KeptBecause = "backlog"   // an event as old as its replies is not settled
	KeptWaiting  KeptBecause = "waiting"   // a request of it waits
	KeptShoot    KeptBecause = "shoot"     // its Shoot is still there
	KeptDraining KeptBecause = "draining"  // the account that it left is not marked dirty yet
	KeptBlocks   KeptBecause = "blocks"    // it has network blocks, or they are noted beside the ledger
	KeptDiffers  KeptBecause = "differing" // Redis has it otherwise than gone
	KeptNotBuilt KeptBecause = "not-built" // Redis has to be rebuilt first
)

// RetentionInfo is a pass that ended.
type RetentionInfo struct {
	Purged    int // runtimes whose replies were deleted
	Forgotten int // tombstones of Redis: records and entries of the directory
	Kept      map[KeptBecause]int
	Duration  time.Duration
	Err       error
}

// LogValue groups what a log line needs.
func (i RetentionInfo) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Int("purged", i.Purged), slog.Int("forgotten", i.Forgotten), slog.Duration("duration", i.Duration),
	}
	for because, n := range i.Kept {
		attrs = append(attrs, slog.Int("kept-"+string(because), n))
	}
	if i.Err != nil {
		attrs = append(attrs, slog.String("error", i.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}
