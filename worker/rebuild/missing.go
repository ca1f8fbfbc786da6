package rebuild

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// missing are the pools and buckets that are known and not built, or not in force.
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
	for pool := range r.asked {
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

// errPaced says that pools which requests alone ask for are rebuilt later, together.
var errPaced = errors.New("a rebuild for pools without a binding was a short time ago")

// pace is how long the next rebuild waits that requests alone ask for, after one that took
// this long: a publisher can name any region, and each unknown one costs a rebuild.
func pace(took time.Duration) time.Duration { return min(max(9*took, leastPace), mostPace) }

const (
	leastPace = time.Second
	mostPace  = time.Minute
)
