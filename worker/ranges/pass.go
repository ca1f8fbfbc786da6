package ranges

import (
	"context"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

const (
	// extendAtOnce is the number of clusters that are served concurrently.
	extendAtOnce = 16
	// extendAgain is the longest pause after a failed turn, without its jitter.
	extendAgain = 10 * time.Second
	// soonest and latest bound the delay of a turn that is requested by Soon, SoonOf or Freed.
	soonest = 2 * time.Second
	latest  = time.Minute
	// onceMore is when a pass follows the first one: at a rolling update, workers without network configuration may
	// have answered requests and released runtimes meanwhile.
	onceMore = 5 * time.Minute
)

func (x *Reconciler) init() {
	x.once.Do(func() { x.signal = make(chan struct{}, 1) })
}

// Freed reports that blocks became free. The clusters for which a rule found no room are then served again.
// It does not block.
func (x *Reconciler) Freed() {
	if x.exhausted.CompareAndSwap(true, false) {
		x.due.add(dueNow{unserved: true})
		x.wakeSoon()
	}
}

// Soon requests that a runtime's cluster is served, for what may happen often. It does not block.
func (x *Reconciler) Soon(runtime string) {
	x.due.add(dueNow{runtimes: map[string]bool{runtime: true}})
	x.wakeSoon()
}

// SoonOf requests that the runtimes of a Cluster are served, for what may happen often. It does not block.
func (x *Reconciler) SoonOf(id network.Identity) {
	x.due.add(dueNow{clusters: map[network.Identity]bool{id: true}})
	x.wakeSoon()
}

// Wanted requests a pass over all clusters. It does not block.
func (x *Reconciler) Wanted() {
	x.due.add(dueNow{all: true})
	x.wake()
}

// wakeSoon begins a turn after nine times the duration of the last one, so that turns take a tenth of the time, but
// not before soonest and not after latest.
func (x *Reconciler) wakeSoon() {
	if x.soon.CompareAndSwap(false, true) {
		time.AfterFunc(min(max(soonest, 9*time.Duration(x.took.Load())), latest), func() {
			x.soon.Store(false)
			x.wake()
		})
	}
}

func (x *Reconciler) wake() {
	x.init()
	select {
	case x.signal <- struct{}{}:
	default: // a turn will begin already
	}
}

// Configured writes the parents of a configuration that has changed, and requests a pass. The pass writes them too, but
// has to wait for one that is running. If Configured cannot write them, the pass does.
func (x *Reconciler) Configured(ctx context.Context) {
	if config := x.Networks(); config != nil && x.Keeper != nil && x.Keeper.SetParents(ctx, config.Parents) == nil && x.Room != nil {
		x.Room()
	}
	x.Wanted() // in this order: if another worker or call has written older parents meanwhile, a pass corrects them
}

// Run makes a pass at once, once more after onceMore, after Wanted was called, and at the interval of the
// configuration, until ctx ends. In between it serves the clusters that Soon, SoonOf and Freed request.
func (x *Reconciler) Run(ctx context.Context) {
	x.init()
	x.due.add(dueNow{all: true})
	again := time.AfterFunc(onceMore, x.Wanted)
	defer again.Stop()
	var passed, ended time.Time // when the last pass over all, and the last turn, ended
	untilRefresh := func() time.Duration {
		config := x.Networks()
		if config == nil || config.Refresh == 0 {
			return 0
		}
		return max(config.Refresh-ended.Sub(passed), time.Millisecond)
	}
	loop.Run(ctx, loop.Options{
		Start: loop.AtOnce, Changing: untilRefresh, Jitter: 0.1, Wake: x.signal,
		Backoff: loop.Backoff{First: 50 * time.Millisecond, Most: extendAgain},
		Failed: func(err error, after time.Duration) {
			x.Observer.Retry(ctx, observe.Retry{Type: "network ranges", After: after, Err: err})
		},
	}, func(ctx context.Context) error {
		whole, err := x.turn(ctx, passed)
		ended = time.Now()
		if whole && err == nil {
			passed = ended
		}
		return err
	})
}

// turn serves what is due, and reports whether that was a pass over all clusters. passed is when the last one ended.
// What it could not serve stays due, also if it panics.
func (x *Reconciler) turn(ctx context.Context, passed time.Time) (whole bool, err error) {
	now, served := x.due.take(), false
	defer func() {
		if !served {
			x.due.add(now)
		}
	}()
	config := x.Networks()
	refresh := config != nil && config.Refresh > 0 && time.Since(passed) >= config.Refresh
	unserved, known := x.unserved.known()
	if now.unserved {
		maps.Copy(unserved, now.runtimes)
		now.runtimes = unserved
	}
	if now.all = now.all || refresh || !known || len(now.runtimes) > mostDue; now.all {
		err = x.Pass(ctx)
	} else {
		err = x.serve(ctx, now)
	}
	served = err == nil
	return now.all, err
}

// Pass writes the parents, compares Redis and the ClusterConfigs with the ledger, and extends every cluster that
// does not have all rules that match it now. Without a configuration it does none of this.
func (x *Reconciler) Pass(ctx context.Context) error {
	return x.prepared(ctx, func(config *network.Config) error {
		g, err := x.gather(ctx)
		if err != nil {
			return err
		}
		if err := x.refresh(ctx, g); err != nil {
			return err
		}
		if g.notes != nil {
			x.Configs.compare(*g.notes, g.read)
		}
		if x.Follower != nil {
			x.named.fill(g)
		}
		x.exhausted.Store(false)
		x.unserved.reset()
		return x.extendAll(ctx, config, g)
	})
}

// serve extends some clusters, and reads from the ledger only the answers of their runtimes and what is new.
func (x *Reconciler) serve(ctx context.Context, now dueNow) error {
	if len(now.runtimes)+len(now.clusters) == 0 {
		return nil
	}
	return x.prepared(ctx, func(config *network.Config) error {
		named, err := x.named.of(ctx, x.Ledger, now.clusters)
		if err != nil {
			return err
		}
		runtimes := maps.Clone(now.runtimes)
		for _, runtime := range named {
			runtimes[runtime] = true
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(extendAtOnce)
		for runtime := range runtimes {
			group.Go(func() error {
				read, err := readAnswersOf(ctx, x.Ledger, runtime)
				if err != nil {
					return err
				}
				x.unserved.set(runtime, nil)
				answers, _ := read.live(runtime)
				if _, err := recordsOf(runtime, answers); err != nil || len(answers) == 0 {
					return err
				}
				return x.extend(ctx, config, runtime, answers)
			})
		}
		return group.Wait()
	})
}

// prepared writes the parents of the configuration, calls extend with it, and reports the numbers of clusters that find
// no room. Without a configuration it writes and calls nothing, and reports none.
func (x *Reconciler) prepared(ctx context.Context, extend func(*network.Config) error) error {
	config := x.Networks()
	if config == nil {
		x.unserved.reset()
		x.Observer.Unserved(ctx, observe.Unserved{})
		return nil
	}
	if err := x.setParents(ctx, config); err != nil {
		return err
	}
	if !x.Follower.synced() {
		return errUnsynced
	}
	begin := time.Now()
	defer func() { x.took.Store(int64(time.Since(begin))) }()
	if err := extend(config); err != nil {
		return err
	}
	x.Observer.Unserved(ctx, observe.Unserved{Clusters: x.unserved.byRule()})
	return nil
}

// setParents writes the parents of the configuration. Each turn does, although Redis usually has them: a rebuild by
// a worker without this configuration leaves others behind.
func (x *Reconciler) setParents(ctx context.Context, config *network.Config) error {
	if x.Keeper == nil {
		return nil
	}
	if err := x.Keeper.SetParents(ctx, config.Parents); err != nil {
		return x.notBuilt(err)
	}
	if x.parents != config && x.Room != nil {
		x.Room()
	}
	x.parents = config
	return nil
}

// gather reads the ClusterConfigs and the ledger. If it cannot read the ClusterConfigs, it goes on without
// them, so that this does not stop the allotment. ClusterConfigs.Missed then requests a pass later.
func (x *Reconciler) gather(ctx context.Context) (*Gathered, error) {
	var notes *network.Notes
	if x.Configs != nil {
		var err error
		if notes, err = ReadNotes(ctx, x.Configs.Notes); err != nil {
			x.Observer.Retry(ctx, observe.Retry{Type: "ClusterConfigs", After: noteLook, Err: err})
			notes = nil
			x.Configs.missed.Store(true)
		}
	}
	read, err := ReadAnswers(ctx, x.Ledger)
	if err != nil {
		return nil, err
	}
	return Gather(read, notes)
}

// extendAll extends every live cluster, and returns the blocks of announced extra replies of runtimes that
// are gone.
func (x *Reconciler) extendAll(ctx context.Context, config *network.Config, g *Gathered) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(extendAtOnce)
	for _, begun := range g.read.Begun {
		if runtime := begun.Reply.RuntimeID; g.read.gone(runtime) {
			// The worker that began may have ended between Acquire and the look at the runtime.
			group.Go(func() error {
				place, rt, err := x.runtime(ctx, runtime)
				if err != nil || !gone(place, rt) {
					return err
				}
				return x.giveBack(ctx, runtime, begun.Reply.RequestID)
			})
		}
	}
	for runtime, answers := range g.read.eachLive() {
		if len(answers) > 0 {
			group.Go(func() error { return x.extend(ctx, config, runtime, answers) })
		}
	}
	return group.Wait()
}
