// Package rebuild rebuilds what Redis has lost (rule 13 of docs/protocol.md): pools and directory from the
// ledger, the labels and the Shoots, network ranges from the ledger and the ClusterConfigs. Before it reads
// them, it seals the events and waiting requests that have no final reply.
package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/clock"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// Builder is the store that a rebuild builds. Package counters implements it with Redis.
type Builder interface {
	// Epochs returns the epochs of those pools and buckets that are built, in force or not.
	Epochs(ctx context.Context, places ...string) (account.Epochs, error)
	// Depose removes the epoch of a place if it still is epoch ("" stands for any), and reports whether it did.
	Depose(ctx context.Context, place, epoch string) (bool, error)
	// Time returns the time of the store's clock, which leases use.
	Time(ctx context.Context) (time.Time, error)
	// BeginRebuild writes the token, unless the place is built, or another token was written or renewed there less
	// than lease ago on this run of the server. It reports whether the token is in the place now.
	BeginRebuild(ctx context.Context, place, token string, now time.Time, lease time.Duration) (bool, error)
	// RenewRebuild renews the lease of the token as of now, and reports whether the token is still there.
	RenewRebuild(ctx context.Context, place, token string, now time.Time) (bool, error)
	// Install installs a pool if it is not built and the token is still there. It reports
	// whether the pool is built from s, also for a repeated call.
	Install(ctx context.Context, pool, token string, s account.Snapshot) (bool, error)
	// InstallBucket does the same for a bucket of the directory.
	InstallBucket(ctx context.Context, bucket, token string, d account.Directory) (bool, error)
}

// Inventory reads bindings and Shoots from Gardener: package gardener.
type Inventory interface {
	// Pools returns the pools that have a binding in the cache.
	Pools() []engine.Pool
	List(ctx context.Context, f func(engine.Binding) error) error
	// EachShoot calls f with each Shoot. It calls restart before, and again if it begins anew.
	EachShoot(ctx context.Context, restart func(), f func(engine.Shoot)) error
}

// Ledger is the ledger as a rebuild uses it: package storage.
type Ledger interface {
	ranges.Ledger
	// Facts visits the stored replies in stream order, without sealed replies and replies to
	// releases. A message that it cannot read comes as a Fact with Foreign alone.
	Facts(ctx context.Context, f func(storage.Fact) error) error
	// Unsettled visits the events that are not settled. It may leave out those that are published after its begin.
	// fault is set if the event could not be read completely.
	Unsettled(ctx context.Context, f func(e events.Event, sequence uint64, fault error) error) error
}

// Waiting calls visit for each waiting request of a runtime, or of all runtimes if runtimeID is "". a has the pool,
// tenant, runtime and request id, by the subject of the message. foreign is set if the message cannot be read. Package
// storage implements it.
type Waiting func(ctx context.Context, runtimeID string, visit func(a events.WaitingAddress, foreign *events.Foreign) error) error

// Rebuilder rebuilds the pools, buckets and network ranges that Redis has lost (rule 13). Every worker runs
// one; the token in Redis makes sure that only one of them installs a place.
type Rebuilder struct {
	Builder   Builder
	Inventory Inventory
	Ledger    Ledger
	Waiting   Waiting
	// Record has the epochs in force (rule 15). Without one, there must be only one server of
	// Redis that can serve.
	Record Record
	// Reconnect makes the client of Redis look for the master again. It may be nil.
	Reconnect func()
	Ranges    RangeBuilder           // nil without network ranges
	Networks  func() *network.Config // set with Ranges; returns nil if there is no configuration
	Notes     ranges.Notes           // nil without ClusterConfigs
	Subjects  events.Subjects
	Observer  observe.Observer
	Now       func() time.Time
	// Belongs returns nil if Redis, the ledger and Gardener belong to the same landscape. It is
	// called before anything is written. An *engine.ForeignError ends Ensure; other errors are
	// retried. Defaults to no check.
	Belongs func(context.Context) error
	// Lease is how long a token is valid without renewal. Defaults to 10 s.
	Lease time.Duration
	// MostUnknown is how many pools that this worker does not know may stay in the record of epochs. If there are
	// more, a rebuild of pools removes all of them. Defaults to 1,000; a negative number means that none may stay.
	MostUnknown int

	once   sync.Once
	signal chan struct{}
	turn   chan struct{} // semaphore: one attempt at a time
	doubts doubted       // only the attempt that holds turn uses doubts, failed and paced
	failed givenUp
	mu     sync.Mutex
	asked  map[string]bool // pools that requests asked for, until they are built; mu protects it
	paced  time.Time       // until then no rebuild begins for pools that only requests asked for
}

// ErrElsewhere means that another worker is rebuilding, or that the client may have reached a server of Redis
// that is not the master.
var ErrElsewhere = errors.New("another worker is rebuilding")

func (r *Rebuilder) init() {
	r.once.Do(func() {
		r.signal, r.turn, r.asked = make(chan struct{}, 1), make(chan struct{}, 1), map[string]bool{}
		if r.Lease == 0 {
			r.Lease = 10 * time.Second
		}
		if r.MostUnknown == 0 {
			r.MostUnknown = 1000
		}
		if r.Now == nil {
			r.Now = time.Now
		}
		if r.Belongs == nil {
			r.Belongs = func(context.Context) error { return nil }
		}
	})
}

// Wanted requests a rebuild of everything that is not built, including pool; "" names none in particular. It
// does not block. While mostAsked pools are to be rebuilt, it leaves pool out: a request that waits for it asks again.
func (r *Rebuilder) Wanted(pool string) {
	r.init()
	if pool != "" {
		r.mu.Lock()
		if len(r.asked) < mostAsked {
			r.asked[pool] = true
		}
		r.mu.Unlock()
	}
	select {
	case r.signal <- struct{}{}:
	default: // a rebuild is requested already
	}
}

// Run calls Ensure after Wanted was called, until ctx ends.
func (r *Rebuilder) Run(ctx context.Context) {
	r.init()
	loop.Run(ctx, loop.Options{Wake: r.signal}, r.Ensure) // attempt reports failures to the observer
}

// Ensure retries until everything known is built, and then returns nil. It returns earlier with ctx's error,
// or with an *engine.ForeignError if a store belongs to another landscape.
func (r *Rebuilder) Ensure(ctx context.Context) error {
	r.init()
	pause := loop.Backoff{First: 50 * time.Millisecond, Most: 2 * time.Second}
	return loop.Retry(ctx, pause, func() error { return r.attempt(ctx) }, nil)
}

func (r *Rebuilder) attempt(ctx context.Context) error {
	select { // Ensure at the start and Run may try at the same time
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	begin := r.Now()
	info, err := r.rebuild(ctx)
	paced := errors.Is(err, errPaced)
	if err == nil || paced {
		err = r.rebuildRanges(ctx)
	}
	info.Duration, info.Err, info.Elsewhere = r.Now().Sub(begin), err, errors.Is(err, ErrElsewhere)
	if len(info.Pools)+info.Buckets > 0 || (err != nil && !info.Elsewhere && ctx.Err() == nil) {
		r.Observer.Rebuild(ctx, info)
	}
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		return loop.Permanent(err)
	}
	if paced {
		return errors.Join(errPaced, err)
	}
	return err
}

// rebuild makes one attempt to rebuild the pools and buckets that are not built or not in force (rule 13). It
// returns ErrElsewhere if another worker's token keeps it from one of them, and errPaced if it may not begin yet.
func (r *Rebuilder) rebuild(ctx context.Context) (info observe.Rebuild, err error) {
	missing, err := r.missing(ctx)
	if err != nil || len(missing.places) == 0 {
		return info, err
	}
	if missing.unknown {
		if left := r.paced.Sub(r.Now()); left > 0 && left <= mostPace { // more than mostPace: the clock was set back
			return info, errPaced
		}
		begin := r.Now()
		defer func() { r.paced = r.Now().Add(pace(r.Now().Sub(begin))) }()
	}
	if err := r.Belongs(ctx); err != nil {
		return info, err
	}
	if missing.record.Unreadable != nil {
		info.Foreign++ // the unreadable record, which enforce replaces
	}
	// (a) Write a new token before anything is read.
	token := r.token()
	now, err := r.Clock(ctx)
	if err != nil {
		return info, err
	}
	mine, err := r.begin(ctx, missing, token, now)
	defer func() { // runs after stop, which ends the renewals
		if err != nil {
			r.failed = givenUp{token, mine}
			r.giveUp(ctx, now)
		}
	}()
	if err != nil {
		return info, err
	}
	if len(mine) == 0 {
		return info, ErrElsewhere
	}
	stop := r.keepAlive(ctx, mine, token, now)
	defer stop()
	r.Observer.Step(ctx, observe.StepToken)
	// Rule 15: after this, no decision of another server has an effect.
	if err := r.enforce(ctx, missing, mine, token); err != nil {
		return info, err
	}
	// (b) Seal: after this, no answer that was decided before the loss can be stored.
	if err = r.seal(ctx, &info); err != nil {
		return info, err
	}
	r.Observer.Step(ctx, observe.StepSealed)
	// (c) Read ledger, labels and Shoots, in this order.
	gathered, read, err := Gather(ctx, r.Ledger, r.Inventory)
	info.Foreign += read.Foreign
	if err != nil {
		return info, err
	}
	info.Replies, info.Runtimes = read.Replies, gathered.Size()
	r.Observer.Step(ctx, observe.StepGathered)
	// (e) Install the places that still have the token.
	if err := r.install(ctx, mine, token, gathered, &info); err != nil {
		return info, err
	}
	if len(mine) < len(missing.places) || len(info.Pools)+info.Buckets < len(mine) {
		return info, ErrElsewhere
	}
	return info, nil
}

// Clock reads the clock of Redis once, and tells the observer its offset. now continues that clock
// without Redis. Leases use it, since the clocks of workers may differ.
func (r *Rebuilder) Clock(ctx context.Context) (now func() time.Time, err error) {
	asked := r.Now()
	said, err := r.Builder.Time(ctx)
	if err != nil {
		return nil, err
	}
	answered := time.Now() // its monotonic reading survives changes of the machine's clock
	c := clock.New(r.Now, func(offset time.Duration) { r.Observer.Clock(ctx, observe.Clock{Store: "redis", Offset: offset}) })
	c.Measure(asked, said)
	return func() time.Time { return said.Add(time.Since(answered)) }, nil
}

// begin deposes the old epochs of the missing places, and writes the token there. It returns the places that
// have the token; after an error, also the place that may have it. If the first place refuses the token,
// another worker is rebuilding, and begin leaves all places to that worker: two workers with a part each
// would wait for each other's record.
func (r *Rebuilder) begin(ctx context.Context, missing unbuilt, token string, now func() time.Time) (mine []string, err error) {
	r.giveUp(ctx, now) // leases that the previous attempt could not end
	for _, place := range missing.places {
		if epoch := missing.deposed[place]; epoch != "" {
			if _, err := r.Builder.Depose(ctx, place, epoch); err != nil {
				return mine, err
			}
		}
		ours, err := r.Builder.BeginRebuild(ctx, place, token, now(), r.Lease)
		if err != nil {
			return append(mine, place), err
		}
		if ours {
			mine = append(mine, place)
		}
		if len(mine) == 0 {
			return nil, nil
		}
	}
	return mine, r.sameServer(ctx, missing, mine)
}

// sameServer returns an error if a missing place that refused the token is built now: the client has switched
// to another server of Redis. That server's pools may count runtimes that no reply names yet, and a directory
// that is rebuilt beside these pools would not have them.
func (r *Rebuilder) sameServer(ctx context.Context, missing unbuilt, mine []string) error {
	others := slices.DeleteFunc(slices.Clone(missing.places), func(place string) bool { return slices.Contains(mine, place) })
	if len(others) == 0 {
		return nil
	}
	epochs, err := r.Builder.Epochs(ctx, others...)
	for _, place := range others {
		if epoch := epochs[place]; epoch != "" && epoch != missing.deposed[place] {
			return fmt.Errorf("%w: %s is built", ErrElsewhere, place)
		}
	}
	return err
}

// keepAlive renews the lease of the token until stop is called, so that no other worker takes over.
func (r *Rebuilder) keepAlive(ctx context.Context, places []string, token string, now func() time.Time) (stop func()) {
	return r.whileWorking(ctx, func(ctx context.Context) {
		for _, place := range places {
			// Ignore a lost token: then Install refuses.
			_, _ = r.Builder.RenewRebuild(ctx, place, token, now())
		}
	})
}

// givenUp is a failed attempt: its token, and the pools and buckets whose lease that token still holds.
type givenUp struct {
	token  string
	places []string
}

// giveUp ends the leases of a failed attempt, so that no worker's next attempt has to wait for them. If Redis
// does not answer, this worker's next attempt ends the rest.
func (r *Rebuilder) giveUp(ctx context.Context, now func() time.Time) {
	for len(r.failed.places) > 0 && ctx.Err() == nil {
		if _, err := r.Builder.RenewRebuild(ctx, r.failed.places[0], r.failed.token, now().Add(-r.Lease)); err != nil {
			return
		}
		r.failed.places = r.failed.places[1:]
	}
}

func (r *Rebuilder) whileWorking(ctx context.Context, renew func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		// A quarter of the lease: the pause begins after the renewals, which take time too.
		loop.Run(ctx, loop.Options{Every: r.Lease / 4}, func(ctx context.Context) error {
			renew(ctx)
			return nil
		})
	})
	return func() {
		cancel()
		running.Wait()
	}
}
