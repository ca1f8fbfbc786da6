package retention

import (
	"context"
	"errors"
	"fmt"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// grave has what Redis remembers of a runtime that is gone, or has left a pool (rule 16).
type grave struct {
	runtime string
	pool    string        // that has the record; "" where the directory alone knows it
	number  int64         // of the record
	moved   bool          // the record says that it has left the pool
	place   account.Place // the entry of the directory, where that alone knows it
}

// tombstones are all runtimes that are gone in Redis, or have left a pool. What is not built has none.
func (r *Purger) tombstones(ctx context.Context) (map[string][]grave, error) {
	all := map[string][]grave{}
	pools, err := r.Records.Pools(ctx)
	if err != nil {
		return nil, err
	}
	for _, pool := range pools {
		for rt, err := range r.Records.Runtimes(ctx, pool) {
			if errors.Is(err, account.ErrNotBuilt) {
				break
			}
			if err != nil {
				return nil, err
			}
			if g, dead := graveIn(pool, rt); dead {
				all[rt.ID] = append(all[rt.ID], g)
			}
		}
	}
	for n := range account.Buckets {
		for p, err := range r.Records.Places(ctx, account.BucketName(n)) {
			if errors.Is(err, account.ErrNotBuilt) {
				break
			}
			if err != nil {
				return nil, err
			}
			if p.Gone {
				all[p.Runtime] = append(all[p.Runtime], grave{runtime: p.Runtime, place: p.Place})
			}
		}
	}
	return all, nil
}

// graveIn returns the grave of a runtime in a pool, and reports whether it is gone or has left.
func graveIn(pool string, rt account.NamedRuntime) (g grave, dead bool) {
	g = grave{runtime: rt.ID, pool: pool, number: rt.Sequence, moved: rt.State == account.RuntimeMoved}
	return g, g.moved || rt.State == account.RuntimeGone
}

// orphaned are the tombstones of runtimes that have no reply at all: those that a
// pass has left which died, or a rebuild that read the ledger before it was purged.
func (r *Purger) orphaned(ctx context.Context, found map[string][]grave, seen around) ([]grave, error) {
	var left []grave
	for runtime, graves := range found {
		if seen.lodged[runtime] || seen.noted[runtime] {
			continue
		}
		if len(left) >= r.Limit {
			break
		}
		known, err := r.known(ctx, runtime)
		if err != nil {
			return nil, err
		}
		if !known {
			left = append(left, graves...)
		}
	}
	return left, nil
}

// known reports whether the ledger has a reply of the runtime.
func (r *Purger) known(ctx context.Context, runtime string) (known bool, err error) {
	err = r.Ledger.OfRuntime(ctx, runtime, func(events.Stored) error {
		known = true
		return nil
	})
	return known, err
}

// forget takes runtimes out of Redis that the ledger does not know any more. The
// directory's entry goes first, and the record after everybody is done who has read
// that entry: until then the record supersedes a worker that would assign by
// it, and no runtime is counted in a pool that the directory does not name.
func (r *Purger) forget(ctx context.Context, graves []grave, info *observe.Retention) error {
	if len(graves) == 0 {
		return nil
	}
	for _, g := range graves {
		dropped, err := r.forgetPlace(ctx, g)
		if err := count(info, dropped, err); err != nil {
			return err
		}
	}
	before, err := r.Ledger.Backlog(ctx)
	if err != nil || !r.sleep(ctx, r.Settle) {
		return err
	}
	now, err := r.Ledger.Backlog(ctx)
	if err != nil || now.First <= before.Last {
		return err // left to a later pass
	}
	for _, g := range graves {
		dropped, err := r.forgetRecord(ctx, g)
		if err := count(info, dropped, err); err != nil {
			return err
		}
	}
	return nil
}

func count(info *observe.Retention, dropped bool, err error) error {
	if dropped {
		info.Forgotten++
	}
	return err
}

// forgetPlace drops an entry that says that the runtime is gone, or names a pool
// whose record says so. It takes less time than the record outlives the entry.
func (r *Purger) forgetPlace(ctx context.Context, g grave) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Settle/2)
	defer cancel()
	switch {
	case g.place.Gone:
	case g.pool == "":
		return false, nil
	default:
		rt, err := r.Records.RuntimeIn(ctx, g.pool, g.runtime)
		if err != nil || rt.State != account.RuntimeGone || rt.Sequence != g.number {
			return false, wrapForget(g, err)
		}
		if g.place, err = r.Records.Place(ctx, g.runtime); err != nil || g.place.Pool != g.pool {
			return false, wrapForget(g, err)
		}
	}
	dropped, err := r.Records.ForgetPlace(ctx, g.runtime, g.place)
	return dropped, wrapForget(g, err)
}

// forgetRecord drops a record that no entry leads to. Who came by the entry before it
// was dropped was superseded, under the number of the record: as long as the ledger
// remembers that, so does Redis.
func (r *Purger) forgetRecord(ctx context.Context, g grave) (bool, error) {
	known, err := r.known(ctx, g.runtime)
	switch {
	case err != nil || known && g.moved:
		return false, err
	case known && g.pool != "":
		_, err = r.Records.Locate(ctx, g.runtime, g.pool)
		return false, wrapForget(g, err)
	case known && g.place.Gone:
		_, err = r.Records.Depart(ctx, g.runtime)
		return false, wrapForget(g, err)
	case g.pool == "":
		return false, nil
	}
	place, err := r.Records.Place(ctx, g.runtime)
	if err != nil || place.Pool == g.pool {
		return false, wrapForget(g, err) // a publisher asks for the runtime again
	}
	dropped, err := r.Records.Forget(ctx, g.pool, g.runtime, g.number)
	return dropped, wrapForget(g, err)
}

func wrapForget(g grave, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("forget runtime %s in Redis: %w", g.runtime, err)
}
