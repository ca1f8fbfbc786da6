package ranges

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

const (
	// extendAtOnce is the number of clusters that are served concurrently.
	extendAtOnce = 16
	// extendAgain is the longest pause after a failed pass.
	extendAgain = 10 * time.Second
	// soonest and latest bound the delay of a pass that is requested by Soon.
	soonest = 2 * time.Second
	latest  = time.Minute
	// onceMore is when a pass follows the first one: at a rolling update, workers without network configuration may
	// have answered requests and released runtimes meanwhile.
	onceMore = 5 * time.Minute
)

// unserved counts the clusters for which a rule found no room, by the rule's id. It is safe for concurrent use.
type unserved struct {
	mu       sync.Mutex
	clusters map[string]int
}

// add counts one cluster for each of the rules.
func (u *unserved) add(rules []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, rule := range rules {
		u.clusters[rule]++
	}
}

// take returns the counts, and begins new ones.
func (u *unserved) take() map[string]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.clusters
	u.clusters = map[string]int{}
	return taken
}

func (x *Reconciler) init() {
	x.once.Do(func() { x.signal = make(chan struct{}, 1) })
}

// Freed reports that blocks became free. If a rule found no room in the last pass, it requests another pass.
// It does not block.
func (x *Reconciler) Freed() {
	if x.exhausted.CompareAndSwap(true, false) {
		x.Soon()
	}
}

// Soon requests a pass for what may happen often: passes then take at most a tenth of the time, or begin a minute
// after such a request. It does not block.
func (x *Reconciler) Soon() {
	if x.soon.CompareAndSwap(false, true) {
		time.AfterFunc(min(max(soonest, 9*time.Duration(x.took.Load())), latest), func() {
			x.soon.Store(false)
			x.Wanted()
		})
	}
}

// Wanted requests a pass over all clusters. It does not block.
func (x *Reconciler) Wanted() {
	x.init()
	select {
	case x.signal <- struct{}{}:
	default: // a pass is requested already
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
// configuration, until ctx ends.
func (x *Reconciler) Run(ctx context.Context) {
	x.init()
	again := time.AfterFunc(onceMore, x.Wanted)
	defer again.Stop()
	refresh := func() time.Duration {
		config := x.Networks()
		if config == nil {
			return 0
		}
		return config.Refresh
	}
	loop.Run(ctx, loop.Options{
		Start: loop.AtOnce, Changing: refresh, Jitter: 0.1, Wake: x.signal,
		Backoff: loop.Backoff{First: 50 * time.Millisecond, Most: extendAgain},
		Failed: func(err error, after time.Duration) {
			x.Observer.Retry(ctx, observe.Retry{Type: "network ranges", After: after, Err: err})
		},
	}, x.Pass)
}

// Pass writes the parents, compares Redis and the ClusterConfigs with the ledger, and extends every cluster that
// does not have all rules that match it now. It does nothing if there is no configuration.
func (x *Reconciler) Pass(ctx context.Context) error {
	config := x.Networks()
	if config == nil {
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
	g, err := x.gather(ctx)
	if err != nil {
		return err
	}
	if err := x.refresh(ctx, g); err != nil {
		return err
	}
	if g.notes != nil {
		x.Configs.compare(*g.notes, g.live, g.gone)
	}
	x.exhausted.Store(false)
	x.unserved.take()
	if err := x.extendAll(ctx, config, g); err != nil {
		return err
	}
	x.Observer.Unserved(ctx, observe.Unserved{Clusters: x.unserved.take()})
	return nil
}

// setParents writes the parents of the configuration. Each pass does, although Redis has them usually: a rebuild by
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
	read, live, gone := g.read, g.live, g.gone
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(extendAtOnce)
	for _, begun := range read.Begun {
		if runtime := begun.Reply.RuntimeID; gone[runtime] {
			// The worker that began may have ended between Acquire and the look at the runtime.
			group.Go(func() error { return x.giveBack(ctx, runtime, begun.Reply.RequestID) })
		}
	}
	for runtime, answers := range live {
		if len(answers) > 0 {
			group.Go(func() error { return x.extend(ctx, config, runtime, answers) })
		}
	}
	return group.Wait()
}
