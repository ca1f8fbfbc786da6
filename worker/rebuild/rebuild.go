// Package rebuild builds again what Redis has lost, rule 13 of docs/protocol.md: it seals
// what is undecided, gathers ledger, labels and Shoots, and installs pools, directory and
// network ranges.
package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/clock"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// Builder installs what a rebuild has gathered: package counters.
type Builder interface {
	// Epochs returns the epochs of those pools and buckets that are built, in force or not.
	Epochs(ctx context.Context, places ...string) (account.Epochs, error)
	// Depose takes the epoch of a place away, if it still is this one.
	Depose(ctx context.Context, place, epoch string) (bool, error)
	// Time returns the time by the clock of the store, by which leases are compared.
	Time(ctx context.Context) (time.Time, error)
	// BeginRebuild writes the token, unless the place is built or another worker's
	// token is younger than lease; it reports whether the token stands.
	BeginRebuild(ctx context.Context, place, token string, now time.Time, lease time.Duration) (bool, error)
	// RenewRebuild makes the token as young as now.
	RenewRebuild(ctx context.Context, place, token string, now time.Time) (bool, error)
	// Install puts a pool in place if it is not built and the token still stands.
	Install(ctx context.Context, pool, token string, s account.Snapshot) (bool, error)
	// InstallBucket does the same for a bucket of the directory.
	InstallBucket(ctx context.Context, bucket, token string, d account.Directory) (bool, error)
}

// Inventory reads all of Gardener, live: package gardener.
type Inventory interface {
	// Pools are the pools that bindings are labelled for, as the cache has them.
	Pools() []engine.Pool
	List(ctx context.Context, f func(engine.Binding) error) error
	Shoots(ctx context.Context, f func(engine.Shoot) error) error
}

// Ledger is the ledger as a rebuild uses it: package events.
type Ledger interface {
	ranges.Ledger
	// Facts reads what every stored reply says of its runtime, from the first to the
	// last there is now.
	Facts(ctx context.Context, f func(events.Fact) error) error
	// Unsettled returns every event that is published and not settled yet, and what
	// is wrong with one that could not be read whole.
	Unsettled(ctx context.Context, f func(e events.Event, sequence uint64, fault error) error) error
}

// Room is where requests wait: package events.
type Room interface {
	// Addresses visits the subjects of a runtime's requests, or of all with "". foreign
	// is set where a message cannot be read.
	Addresses(ctx context.Context, runtimeID string, visit func(a events.WaitingAddress, foreign *events.Foreign) error) error
}

// Rebuilder builds pools and buckets that Redis does not have: rule 13. Every
// worker has one; a token in Redis sees to it that one of them installs.
type Rebuilder struct {
	Builder   Builder
	Inventory Inventory
	Ledger    Ledger
	Room      Room
	// Record says which epochs are in force, rule 15. Defaults to none: then no other
	// server of Redis must be able to serve.
	Record Record
	// Reconnect has the client look for the master anew. Defaults to nothing.
	Reconnect func()
	Ranges    RangeBuilder    // nil without network ranges
	Networks  ranges.Networks // set with Ranges
	Notes     ranges.Notes    // nil where nothing is written beside the ledger
	Subjects  events.Subjects
	Observer  observe.Observer
	Now       func() time.Time
	// Belongs reports whether Redis, the ledger and Gardener are of one landscape; it is
	// asked before anything is written. An *engine.ForeignError ends the attempts.
	// Defaults to no question.
	Belongs func(context.Context) error
	// Lease is how long another worker's rebuild is waited for without a sign of
	// life. Defaults to 10 s.
	Lease time.Duration

	once   sync.Once
	signal chan struct{}
	turn   chan struct{} // has room for the one attempt at a time
	doubts doubted       // the attempt's
	failed givenUp       // the same
	mu     sync.Mutex
	asked  map[string]bool // pools, until they are built
	paced  time.Time       // no rebuild before this moment that requests alone ask for
}

// ErrElsewhere says that another worker is rebuilding.
var ErrElsewhere = errors.New("another worker is rebuilding")

func (r *Rebuilder) init() {
	r.once.Do(func() {
		r.signal, r.turn, r.asked = make(chan struct{}, 1), make(chan struct{}, 1), map[string]bool{}
		if r.Lease == 0 {
			r.Lease = 10 * time.Second
		}
		if r.Now == nil {
			r.Now = time.Now
		}
		if r.Belongs == nil {
			r.Belongs = func(context.Context) error { return nil }
		}
	})
}

// Wanted asks for a rebuild of what is not built, and of pool, "" for none in
// particular. It does not wait.
func (r *Rebuilder) Wanted(pool string) {
	r.init()
	if pool != "" {
		r.mu.Lock()
		r.asked[pool] = true
		r.mu.Unlock()
	}
	select {
	case r.signal <- struct{}{}:
	default: // one is on its way
	}
}

// Run rebuilds whenever that is wanted, until ctx ends.
func (r *Rebuilder) Run(ctx context.Context) {
	r.init()
	loop.Run(ctx, loop.Options{Wake: r.signal}, r.Ensure) // the observer was told of each failure
}

// Ensure returns when everything known is built, with ctx's error, or with an
// *engine.ForeignError: what belongs to another landscape is not waited for.
func (r *Rebuilder) Ensure(ctx context.Context) error {
	r.init()
	pause := loop.Backoff{First: 50 * time.Millisecond, Most: 2 * time.Second}
	return loop.Retry(ctx, pause, func() error { return r.attempt(ctx) }, nil)
}

func (r *Rebuilder) attempt(ctx context.Context) error {
	select { // a worker's first build meets what its events ask for
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	begin := r.Now()
	info, err := r.rebuild(ctx)
	if errors.Is(err, errPaced) {
		return errors.Join(err, r.rebuildRanges(ctx))
	}
	if err == nil {
		err = r.rebuildRanges(ctx)
	}
	info.Duration, info.Err, info.Elsewhere = r.Now().Sub(begin), err, errors.Is(err, ErrElsewhere)
	if len(info.Pools)+info.Buckets > 0 || (err != nil && !info.Elsewhere && ctx.Err() == nil) {
		r.Observer.Rebuild(ctx, info)
	}
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		return loop.Permanent(err)
	}
	return err
}

// rebuild is one pass of rule 13 over everything that is not built.
func (r *Rebuilder) rebuild(ctx context.Context) (info observe.Rebuild, err error) {
	missing, err := r.missing(ctx)
	if err != nil || len(missing.places) == 0 {
		return info, err
	}
	if missing.unknown {
		if left := r.paced.Sub(r.Now()); left > 0 && left <= mostPace { // longer: the clock was put back
			return info, errPaced
		}
		begin := r.Now()
		defer func() { r.paced = r.Now().Add(pace(r.Now().Sub(begin))) }()
	}
	if err := r.Belongs(ctx); err != nil {
		return info, err
	}
	if missing.record.Unreadable != nil {
		info.Foreign++ // the record that is written now takes its place
	}
	// (a) A token that was never used before, before anything is read.
	token := r.token()
	now, err := r.storeClock(ctx)
	if err != nil {
		return info, err
	}
	mine, err := r.begin(ctx, missing, token, now)
	defer func() { // after the renewals have ended
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
	// Rule 15: from here on no decision of another server has an effect.
	if err := r.enforce(ctx, missing, mine, token); err != nil {
		return info, err
	}
	// (b) Seal: no answer that was decided before the loss can be published now.
	if err = r.seal(ctx, &info); err != nil {
		return info, err
	}
	r.Observer.Step(ctx, observe.StepSealed)
	// (c) Only now read: ledger, then labels, then Shoots.
	gathered, read, err := Gather(ctx, r.Ledger, r.Inventory)
	info.Foreign += read.Foreign
	if err != nil {
		return info, err
	}
	info.Replies, info.Runtimes = read.Replies, gathered.Size()
	r.Observer.Step(ctx, observe.StepGathered)
	// (e) Install where the token still stands.
	if err := r.install(ctx, mine, token, gathered, &info); err != nil {
		return info, err
	}
	if len(mine) < len(missing.places) || len(info.Pools)+info.Buckets < len(mine) {
		return info, ErrElsewhere
	}
	return info, nil
}

// storeClock returns the clock of Redis, as it is now and goes on: leases are compared with those
// of workers whose clocks may differ from this one's.
func (r *Rebuilder) storeClock(ctx context.Context) (now func() time.Time, err error) {
	asked := r.Now()
	said, err := r.Builder.Time(ctx)
	if err != nil {
		return nil, err
	}
	answered := time.Now() // goes on evenly, whatever the machine's clock is set to
	c := clock.New(r.Now, func(offset time.Duration) { r.Observer.Clock(ctx, observe.Clock{Store: "redis", Offset: offset}) })
	c.Measure(asked, said)
	return func() time.Time { return said.Add(time.Since(answered)) }, nil
}

// begin writes the token, and returns where it stands, or after an error may stand. Where the first
// place is another worker's, so are the others: two that share them would wait for each other's record.
func (r *Rebuilder) begin(ctx context.Context, missing unbuilt, token string, now func() time.Time) (mine []string, err error) {
	r.giveUp(ctx, now) // what Redis did not hear of
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

// sameServer returns an error where a place that was missing is built: the client has found
// another server of Redis meanwhile. A directory that is built there anew beside pools that
// stand would lack what they have counted and no request was answered with.
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

// keepAlive renews the token while the rebuild reads, so that no other worker starts.
func (r *Rebuilder) keepAlive(ctx context.Context, places []string, token string, now func() time.Time) (stop func()) {
	return r.whileWorking(ctx, func(ctx context.Context) {
		for _, place := range places {
			// A token that is lost is noticed by the install.
			_, _ = r.Builder.RenewRebuild(ctx, place, token, now())
		}
	})
}

// givenUp are places whose token is of an attempt that has failed.
type givenUp struct {
	token  string
	places []string
}

// giveUp ends the lease of a rebuild that failed, so that the next attempt of any worker need not wait
// for it. Where Redis does not answer, the rest is left to this worker's next attempt.
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
		// The pause comes after a renewal, which takes time too.
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

// installAtOnce is how many places are installed side by side: one is packed
// while Redis stores another.
const installAtOnce = 4

// install puts everything in place, rule 13 (e). Places are independent of each
// other: each is built as a whole or not at all.
func (r *Rebuilder) install(ctx context.Context, mine []string, token string, g *account.Gathering, info *observe.Rebuild) error {
	directories, snapshots := g.Directories(), g.Snapshots()
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(installAtOnce)
	for _, place := range mine {
		group.Go(func() error {
			var installed bool
			var err error
			directory, bucket := directories[place]
			if bucket {
				installed, err = r.Builder.InstallBucket(ctx, place, token, directory)
			} else {
				installed, err = r.Builder.Install(ctx, place, token, snapshots[place])
			}
			if installed {
				r.Observer.Step(ctx, observe.StepInstalled)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				return fmt.Errorf("install %s: %w", place, err)
			case installed && bucket:
				info.Buckets++
			case installed:
				info.Pools = append(info.Pools, place)
			}
			return nil
		})
	}
	return group.Wait()
}
