package rebuild

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// missing judges the buckets, the pools that have a binding, and the pools that requests have asked for, and
// returns those to rebuild (see judge). It drops pools that need no rebuild from r.asked.
func (r *Rebuilder) missing(ctx context.Context) (unbuilt, error) {
	var places []string
	for n := range account.Buckets {
		places = append(places, account.BucketName(n))
	}
	for _, pool := range r.Inventory.Pools() {
		places = append(places, pool.Name())
	}
	known := len(places)
	r.mu.Lock()
	for _, pool := range slices.Sorted(maps.Keys(r.asked)) { // the order of places is the order of calls
		if !slices.Contains(places, pool) {
			places = append(places, pool)
		}
	}
	r.mu.Unlock()
	epochs, err := r.Builder.Epochs(ctx, places...)
	if err != nil {
		return unbuilt{}, err
	}
	missing, err := r.judge(ctx, places, epochs)
	if err != nil {
		return missing, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	missing.unknown = true
	for i, place := range places {
		switch gone := slices.Contains(missing.places, place); {
		case !gone:
			delete(r.asked, place)
		case i < known:
			missing.unknown = false
		}
	}
	return missing, nil
}

// errPaced means that a rebuild for pools that only requests ask for has to wait, until r.paced.
var errPaced = errors.New("a rebuild for pools without a binding was a short time ago")

// pace returns the pause after a rebuild for such pools, which took this long. A publisher can name any
// region, and each unknown pool costs a rebuild.
func pace(took time.Duration) time.Duration { return min(max(9*took, leastPace), mostPace) }

// mostAsked is the maximum number of pools that requests asked for and that are rebuilt together.
const mostAsked = 500

const (
	leastPace = time.Second
	mostPace  = time.Minute
)
