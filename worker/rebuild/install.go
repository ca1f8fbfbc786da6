package rebuild

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// installAtOnce is the number of places that are installed, and so are in memory, at once.
const installAtOnce = 2

// install installs all places that have the token (rule 13 e), each one as a whole or not at all, and adds the
// installed ones to info. It also requests a rebuild of the pools that have runtimes but no binding. Without the records
// of such a pool, an account that it shares, and whose label no longer says so, would be claimed (rule 10).
func (r *Rebuilder) install(ctx context.Context, mine []string, token string, g *account.Gathering, info *observe.Rebuild) error {
	contents := g.Contents()
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(installAtOnce)
	for _, place := range mine {
		group.Go(func() error {
			var installed bool
			var err error
			directory, bucket := contents.Bucket(place)
			if bucket {
				installed, err = r.Builder.InstallBucket(ctx, place, token, directory)
			} else {
				installed, err = r.Builder.Install(ctx, place, token, contents.Pool(place))
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
	for _, name := range contents.Occupied() {
		if !slices.Contains(mine, name) && !slices.Contains(labelled, engine.ParsePool(name)) {
			r.Wanted(name)
		}
	}
	return nil
}
