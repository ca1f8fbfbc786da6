package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// Builder installs what a rebuild has gathered: package counters.
type Builder interface {
	// Built says of each pool or bucket whether it is built.
	Built(ctx context.Context, places ...string) (map[string]bool, error)
	// BeginRebuild writes the token, unless the place is built or somebody else's
	// token is younger than lease; it reports whether the token stands.
	BeginRebuild(ctx context.Context, place, token string, now time.Time, lease time.Duration) (bool, error)
	// RenewRebuild makes the token as young as now.
	RenewRebuild(ctx context.Context, place, token string, now time.Time) (bool, error)
	// Install puts a pool in place if it is not built and the token still stands.
	Install(ctx context.Context, pool, token string, s account.Snapshot) (bool, error)
	// InstallBucket does the same for a bucket of the directory.
	InstallBucket(ctx context.Context, bucket, token string, d account.Directory) (bool, error)
}

// Census reads all of Gardener, live: package gardener.
type Census interface {
	// Pools are the pools that bindings are labelled for, as the cache has them.
	Pools() []engine.Pool
	List(ctx context.Context, f func(engine.Binding) error) error
	Shoots(ctx context.Context, f func(engine.Shoot) error) error
}

// Archive is the ledger as a rebuild uses it: package events.
type Archive interface {
	Ledger
	// Each reads every stored reply, from the first to the last there is now.
	Each(ctx context.Context, f func(events.Stored) error) error
	// Facts reads what every stored reply says of its runtime, from the first to the
	// last there is now.
	Facts(ctx context.Context, f func(events.Fact) error) error
	// Unsettled gives every event that is published and not settled yet, and what
	// is wrong with one that could not be read whole.
	Unsettled(ctx context.Context, f func(e events.Event, sequence uint64, fault error) error) error
}

// Rebuild builds pools and buckets that Redis does not have: rule 13. Every
// worker has one; a token in Redis sees to it that one of them installs.
type Rebuild struct {
	Builder  Builder
	Census   Census
	Archive  Archive
	Room     Room
	Ranges   RangeBuilder // nil without network ranges
	Networks Networks     // set with Ranges
	Notes    ClusterNotes // nil where nothing is written beside the ledger
	Subjects events.Subjects
	Listener Listener
	Now      Clock
	// Lease is how long another worker's rebuild is waited for without a sign of
	// life. Defaults to 10 s.
	Lease time.Duration

	once   sync.Once
	signal chan struct{}
	mu     sync.Mutex
	asked  map[string]bool
}

// The steps of a rebuild, in order. As with an event's, what is done before a
// step is done when it is announced.
const (
	StepToken     Step = "token"     // the rebuild's token is written
	StepSealed    Step = "sealed"    // what is not settled is sealed
	StepGathered  Step = "gathered"  // ledger, labels and Shoots are read
	StepInstalled Step = "installed" // a pool or bucket is in place
)

// RebuildSteps lists the steps of a rebuild.
func RebuildSteps() []Step { return []Step{StepToken, StepSealed, StepGathered, StepInstalled} }

// ErrRebuildElsewhere says that another worker is rebuilding.
var ErrRebuildElsewhere = errors.New("another worker is rebuilding")

func (r *Rebuild) init() {
	r.once.Do(func() {
		r.signal, r.asked = make(chan struct{}, 1), map[string]bool{}
		if r.Lease == 0 {
			r.Lease = 10 * time.Second
		}
		if r.Now == nil {
			r.Now = time.Now
		}
	})
}

// Wanted asks for a rebuild of what is not built, and of pool, "" for none in
// particular. It does not wait.
func (r *Rebuild) Wanted(pool string) {
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
func (r *Rebuild) Run(ctx context.Context) {
	r.init()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.signal:
			_ = r.Ensure(ctx) // ends with ctx only; each failure was told to the listener
		}
	}
}

// Ensure returns when everything known is built, or with ctx's error.
func (r *Rebuild) Ensure(ctx context.Context) error {
	r.init()
	pause := backoff.WithContext(backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(2*time.Second),
		backoff.WithMaxElapsedTime(0)), ctx)
	return backoff.Retry(func() error { return r.attempt(ctx) }, pause)
}

func (r *Rebuild) attempt(ctx context.Context) error {
	begin := r.Now()
	info, err := r.rebuild(ctx)
	if err == nil {
		err = r.rebuildRanges(ctx)
	}
	info.Duration, info.Err = r.Now().Sub(begin), err
	if len(info.Pools)+info.Buckets > 0 || (err != nil && !errors.Is(err, ErrRebuildElsewhere) && ctx.Err() == nil) {
		r.Listener.rebuild(ctx, info)
	}
	return err
}

// rebuild is one pass of rule 13 over everything that is not built.
func (r *Rebuild) rebuild(ctx context.Context) (RebuildInfo, error) {
	var info RebuildInfo
	missing, err := r.missing(ctx)
	if err != nil || len(missing) == 0 {
		return info, err
	}
	// (a) A token that was never used before, before anything is read.
	token := uuid.NewString()
	var mine []string
	for _, place := range missing {
		ours, err := r.Builder.BeginRebuild(ctx, place, token, r.Now(), r.Lease)
		if err != nil {
			return info, err
		}
		if ours {
			mine = append(mine, place)
		}
	}
	if len(mine) == 0 {
		return info, ErrRebuildElsewhere
	}
	stop := r.keepAlive(ctx, mine, token)
	defer stop()
	r.Listener.step(ctx, StepToken)
	// (b) Seal: no answer that was decided before the loss can be published now.
	if info.Sealed, err = r.seal(ctx); err != nil {
		return info, err
	}
	r.Listener.step(ctx, StepSealed)
	// (c) Only now read: ledger, then labels, then Shoots.
	gathered, replies, err := Gather(ctx, r.Archive, r.Census)
	if err != nil {
		return info, err
	}
	info.Replies, info.Runtimes = replies, gathered.Size()
	r.Listener.step(ctx, StepGathered)
	// (e) Install where the token still stands.
	if err := r.install(ctx, mine, token, gathered, &info); err != nil {
		return info, err
	}
	if len(mine) < len(missing) || len(info.Pools)+info.Buckets < len(mine) {
		return info, ErrRebuildElsewhere
	}
	return info, nil
}

// missing are the pools and buckets that are known and not built.
func (r *Rebuild) missing(ctx context.Context) ([]string, error) {
	var places []string
	for n := range account.Buckets {
		places = append(places, account.BucketName(n))
	}
	for _, pool := range r.Census.Pools() {
		places = append(places, pool.Name())
	}
	r.mu.Lock()
	for pool := range r.asked {
		if !slices.Contains(places, pool) {
			places = append(places, pool)
		}
	}
	r.mu.Unlock()
	built, err := r.Builder.Built(ctx, places...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(places, func(p string) bool { return built[p] }), nil
}

// keepAlive renews the token while the rebuild reads, so that nobody else starts.
func (r *Rebuild) keepAlive(ctx context.Context, places []string, token string) (stop func()) {
	return r.whileWorking(ctx, func(ctx context.Context) {
		for _, place := range places {
			// A token that is lost is noticed by the install.
			_, _ = r.Builder.RenewRebuild(ctx, place, token, r.Now())
		}
	})
}

func (r *Rebuild) whileWorking(ctx context.Context, renew func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(r.Lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				renew(ctx)
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// seal publishes a non-final reply for every event that is still to be settled:
// whoever decided it before the loss is refused at its publish, and starts over.
func (r *Rebuild) seal(ctx context.Context) (int, error) {
	sealed := 0
	err := r.Archive.Unsettled(ctx, func(e events.Event, _ uint64, _ error) error {
		subject := e.ReplySubject(r.Subjects)
		if subject == "" {
			return nil
		}
		done, err := r.sealOne(ctx, subject, e)
		if done {
			sealed++
		}
		return err
	})
	if err == nil {
		err = r.Room.Each(ctx, func(waiting events.WaitingRequest) error {
			done, err := r.sealOne(ctx, waiting.Event.ReplySubject(r.Subjects), waiting.Event)
			if done {
				sealed++
			}
			return err
		})
	}
	if err != nil {
		return sealed, fmt.Errorf("seal the events that are not settled: %w", err)
	}
	return sealed, nil
}

func (r *Rebuild) sealOne(ctx context.Context, subject string, e events.Event) (bool, error) {
	for {
		stored, found, err := r.Archive.Last(ctx, subject)
		if err != nil {
			return false, err
		}
		if found && stored.Reply.Final() {
			return false, nil // losing to a final is fine
		}
		seal := events.Reply{RequestID: e.ID, RuntimeID: e.RuntimeID, Status: events.StatusSealed}
		if found && stored.Reply.Status == events.StatusWaiting {
			seal = stored.Reply // it waits on: the same again, under a new sequence
		}
		_, err = r.Archive.Publish(ctx, subject, seal, stored.Sequence)
		if !errors.Is(err, events.ErrWrongLastSequence) {
			return err == nil, err
		}
	}
}

// installAtOnce is how many places are installed side by side: one is packed
// while Redis stores another.
const installAtOnce = 4

// install puts everything in place, rule 13 (e). Places are independent of each
// other: each is built as a whole or not at all.
func (r *Rebuild) install(ctx context.Context, mine []string, token string, g *account.Gathering, info *RebuildInfo) error {
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
				r.Listener.step(ctx, StepInstalled)
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
