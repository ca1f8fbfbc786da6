package rebuild

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// installAtOnce is the number of places that are installed concurrently.
const installAtOnce = 4

// install installs all places that have the token (rule 13 e), each one as a whole or not at all, and adds the
// installed ones to info. It requests a rebuild of pools that have runtimes and no binding: otherwise only a request that
// names them does. Without their records, an account that they share would be claimed (rule 3).
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
	if err := group.Wait(); err != nil {
		return err
	}
	labelled := r.Inventory.Pools()
	for _, name := range slices.Sorted(maps.Keys(snapshots)) {
		if !slices.Contains(mine, name) && !slices.Contains(labelled, engine.ParsePool(name)) && occupied(snapshots[name]) {
			r.Wanted(name)
		}
	}
	return nil
}

// occupied reports whether a pool has a runtime on an account.
func occupied(s account.Snapshot) bool {
	for _, rt := range s.Runtimes {
		if rt.State == account.RuntimeAssigned {
			return true
		}
	}
	return false
}
