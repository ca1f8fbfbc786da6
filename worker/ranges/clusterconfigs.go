package ranges

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// ClusterConfigs keeps the ClusterConfigs in step with the ledger. They record network blocks in another
// Kubernetes cluster. It runs in the background, so an outage of that cluster delays no request. Every worker
// runs it; the writes are idempotent.
type ClusterConfigs struct {
	Notes    Notes
	Ledger   Ledger
	Networks func() *network.Config // the present configuration, nil if there is none
	Runtime  Runtime
	Observer observe.Observer
	Follower *Follower // the Reconciler's; may be nil

	once  sync.Once
	queue workqueue.TypedRateLimitingInterface[string]

	// Missed is called when the API is reachable again after a pass had to skip the comparison.
	Missed func()
	missed atomic.Bool
}

const (
	// notesAtOnce is the number of runtimes that are updated concurrently.
	notesAtOnce = 4
	// noteAgain is the longest pause before the failed update of a runtime's ClusterConfig is tried again.
	noteAgain = 30 * time.Second
	// noteLook is how often the annotations of Clusters are compared with the ClusterConfigs,
	// since no worker watches Clusters for this.
	noteLook = time.Minute
)

func (c *ClusterConfigs) init() {
	c.once.Do(func() {
		c.queue = workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, noteAgain))
	})
}

// Changed requests an update of a runtime's ClusterConfigs: its blocks may have changed, or its ClusterConfig
// was edited. It does not block.
func (c *ClusterConfigs) Changed(runtime string) {
	c.init()
	c.queue.Add(runtime)
}

// Run updates the requested runtimes, and looks for others each noteLook, until ctx ends.
func (c *ClusterConfigs) Run(ctx context.Context) {
	c.init()
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()
	for range notesAtOnce {
		running.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	loop.Run(ctx, loop.Options{Every: noteLook, Failed: func(err error, after time.Duration) {
		c.Observer.Retry(ctx, observe.Retry{Type: "ClusterConfigs", After: after, Err: err})
	}}, c.look)
}

// next updates one runtime. It returns false when Run has to end.
func (c *ClusterConfigs) next(ctx context.Context) bool {
	runtime, over := c.queue.Get()
	if over || ctx.Err() != nil {
		return false
	}
	defer c.queue.Done(runtime)
	info, err := c.bring(ctx, runtime)
	info.Failed = c.queue.NumRequeues(runtime)
	switch {
	case err == nil:
		c.queue.Forget(runtime)
		if slices.ContainsFunc(info.Taken, func(t network.Taken) bool { return t.By != "" }) {
			c.queue.AddAfter(runtime, noteLook) // when the runtime that has it goes, nothing asks for this one
		}
	case ctx.Err() != nil:
		return false
	case errors.Is(err, engine.ErrConflict):
		c.queue.AddRateLimited(runtime) // another writer was faster, probably another worker
		return true
	case errors.Is(err, network.ErrRefused):
		c.queue.Forget(runtime)
	default:
		c.queue.AddRateLimited(runtime)
	}
	info.Runtime, info.Err = runtime, err
	c.Observer.Noted(ctx, info)
	return true
}

// bring writes the blocks that the ledger has for a runtime into its ClusterConfigs, or removes these if the
// runtime is gone by the ledger, or by Redis if the ledger has no assignment of it. It writes nothing if no rule
// matches the cluster now.
func (c *ClusterConfigs) bring(ctx context.Context, runtime string) (observe.Noted, error) {
	read, err := readAnswersOf(ctx, c.Ledger, runtime)
	if err != nil {
		return observe.Noted{}, err
	}
	switch answers, _ := read.live(runtime); {
	case read.gone(runtime):
		n, _ := noteOf(runtime, read.of(runtime))
		return c.remove(ctx, n)
	case len(answers) > 0:
		n, noted := noteOf(runtime, answers)
		config := c.Networks()
		if !noted || config == nil || len(config.Match(c.Follower.standing(inForce(answers).cluster, ""))) == 0 {
			return observe.Noted{}, nil // leave the ClusterConfigs of a cluster that no rule matches unchanged
		}
		return c.write(ctx, n)
	default:
		departed, err := c.departed(ctx, runtime)
		if err != nil || !departed {
			return observe.Noted{}, err
		}
		return c.remove(ctx, network.Note{Runtime: runtime})
	}
}

// write writes a note, and removes it again if the runtime is gone by then: its departure may have removed
// the earlier notes just before. If a ClusterConfig belongs to another runtime that is gone, write removes
// that runtime's note and returns engine.ErrConflict: the next attempt writes the ClusterConfig, unless a finalizer
// still holds the old one.
func (c *ClusterConfigs) write(ctx context.Context, n network.Note) (observe.Noted, error) {
	noted, err := c.Notes.Write(ctx, n)
	if err != nil {
		return observe.Noted{}, err
	}
	departed, err := c.departed(ctx, n.Runtime)
	if err != nil {
		return observe.Noted{}, err
	}
	if departed {
		return c.remove(ctx, n)
	}
	info, removed := observe.Noted{Written: noted.Changed}, false
	for _, taken := range noted.Taken {
		if taken.By == "" {
			info.Taken = append(info.Taken, taken)
			continue
		}
		left, err := c.departed(ctx, taken.By)
		if err != nil {
			return info, err
		}
		if !left {
			info.Taken = append(info.Taken, taken)
			continue
		}
		if _, err := c.Notes.Remove(ctx, network.Note{Runtime: taken.By, Cluster: n.Cluster, Applied: n.Applied}); err != nil {
			return info, err
		}
		removed = true
	}
	if removed {
		return info, engine.ErrConflict
	}
	return info, nil
}

func (c *ClusterConfigs) remove(ctx context.Context, n network.Note) (observe.Noted, error) {
	removed, err := c.Notes.Remove(ctx, n)
	return observe.Noted{Removed: removed}, err
}

func (c *ClusterConfigs) departed(ctx context.Context, runtime string) (bool, error) {
	place, rt, err := c.Runtime(ctx, runtime)
	return place.Gone || rt.State == account.RuntimeGone, err
}

// look requests an update of each runtime whose ClusterConfig was edited or differs from the annotation of its
// Cluster, and of each that a Cluster is annotated with and that has no ClusterConfig. It calls Missed if a pass
// could not read the notes before.
func (c *ClusterConfigs) look(ctx context.Context) error {
	notes, err := c.Notes.All(ctx)
	if err != nil {
		return err
	}
	if c.missed.Swap(false) {
		c.Missed()
	}
	said := map[network.Identity]network.Note{}
	for _, n := range notes.Clusters {
		said[n.Cluster] = n
	}
	known := map[string]bool{}
	for _, n := range notes.Configs {
		known[n.Runtime] = true
		cluster, there := said[n.Cluster]
		theirs := cluster.Runtime == "" && network.Contradict(cluster.Applied, n.Applied) // Write leaves it as it is
		if n.Runtime != "" && (n.Edited || there && !theirs && !sameBlocks(byRule(cluster.Applied), n.Applied)) {
			c.Changed(n.Runtime)
		}
	}
	for _, n := range notes.Clusters {
		if n.Runtime != "" && !known[n.Runtime] {
			c.Changed(n.Runtime)
		}
	}
	return nil
}

// compare requests an update of each runtime whose notes differ from the ledger. The caller has read the notes
// before the ledger.
func (c *ClusterConfigs) compare(notes network.Notes, read *Answers) {
	configs := map[string][]network.Applied{} // by runtime
	said, of := map[network.Identity]map[string]network.Applied{}, map[network.Identity]string{}
	for _, n := range notes.Configs {
		if !n.Edited {
			configs[n.Runtime] = append(configs[n.Runtime], n.Applied...)
		}
		if read.gone(n.Runtime) {
			c.Changed(n.Runtime)
		}
	}
	for _, n := range notes.Clusters {
		said[n.Cluster], of[n.Cluster] = byRule(n.Applied), n.Runtime
		if read.gone(n.Runtime) {
			c.Changed(n.Runtime)
		}
	}
	for runtime, answers := range read.eachLive() {
		n, noted := noteOf(runtime, answers)
		if !noted {
			continue
		}
		rules, there := said[n.Cluster]
		whole := !slices.ContainsFunc(n.Applied, func(a network.Applied) bool {
			return !slices.ContainsFunc(configs[runtime], a.Equal)
		})
		if !whole || there && (of[n.Cluster] != runtime || !sameBlocks(rules, n.Applied)) {
			c.Changed(runtime)
		}
	}
}

func byRule(applied []network.Applied) map[string]network.Applied {
	rules := map[string]network.Applied{}
	for _, a := range applied {
		rules[a.Rule] = a
	}
	return rules
}

// sameBlocks reports whether an annotation has the same blocks for each of the applied rules.
func sameBlocks(rules map[string]network.Applied, applied []network.Applied) bool {
	return !slices.ContainsFunc(applied, func(a network.Applied) bool {
		is, should := rules[a.Rule].ByPath(), a.ByPath()
		if len(is) != len(should) {
			return true
		}
		for path, cidr := range should {
			if is[path] != cidr {
				return true
			}
		}
		return false
	})
}

// noteOf returns the note of a runtime with these answers. It returns false for a runtime without blocks or
// with an answer whose blocks cannot be parsed, and for a cluster without name or namespace.
func noteOf(runtime string, answers []answer) (network.Note, bool) {
	n := network.Note{Runtime: runtime}
	if len(answers) == 0 {
		return n, false
	}
	records, err := recordsOf(runtime, answers)
	if err != nil {
		return n, false // a rebuild reports this error
	}
	for _, r := range records {
		n.Applied = append(n.Applied, r.Applied)
	}
	if c := inForce(answers).cluster; c != nil {
		n.Cluster = network.Identity{Name: c.Name, Namespace: c.Namespace}
	}
	return n, n.Cluster.Name != "" && n.Cluster.Namespace != "" && len(n.Applied) > 0
}
