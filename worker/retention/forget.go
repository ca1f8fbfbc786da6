package retention

import (
	"context"
	"errors"
	"fmt"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// grave is a tombstone in Redis: the record of a runtime that is gone or has left a pool (rule 16), or an
// entry of the directory.
type grave struct {
	runtime string
	pool    string        // pool of the record; "" for an entry of the directory
	number  int64         // sequence of the record
	moved   bool          // the record says that the runtime has left the pool
	place   account.Place // the entry, if pool is ""
}

// tombstones returns all tombstones in Redis, by runtime. It skips pools and buckets that are not built.
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

// graveIn returns the grave of a runtime in a pool. dead is false if the runtime is neither gone nor moved.
func graveIn(pool string, rt account.NamedRuntime) (g grave, dead bool) {
	g = grave{runtime: rt.ID, pool: pool, number: rt.Sequence, moved: rt.State == account.RuntimeMoved}
	return g, g.moved || rt.State == account.RuntimeGone
}

// orphaned returns about Limit of the found tombstones: those of runtimes without a reply, a Shoot or a note.
// A pass that died leaves these, or a rebuild that read the ledger before it was purged. It returns none while an
// event that was in flight when Redis was read (before) is not settled: its answer may not be stored yet.
func (r *Purger) orphaned(ctx context.Context, found map[string][]grave, before storage.Backlog, seen around, info *observe.Retention) ([]grave, error) {
	if len(found) > 0 && seen.backlog.First <= before.Last {
		info.Kept[observe.KeptBacklog] += len(found)
		return nil, nil
	}
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

// forget removes runtimes from Redis that the ledger no longer knows: first the entry of the directory, and
// the record after all workers that may have read the entry are done. Until then a provision that has read
// the entry finds the record, and is superseded. Without the record it would count the runtime in a pool that
// the directory does not name.
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
	if err != nil {
		return err
	}
	if now.First <= before.Last { // events of that time are not settled: a later pass drops the records
		kept := map[string]bool{}
		for _, g := range graves {
			if g.pool != "" {
				kept[g.runtime] = true
			}
		}
		info.Kept[observe.KeptBacklog] += len(kept)
		return nil
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

// forgetPlace drops an entry that says that the runtime is gone, or that names a pool whose record says so.
// Its time-out is shorter than the time for which the record outlives the entry.
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

// forgetRecord drops a record to which no entry leads. If the ledger knows the runtime again, a provision
// that had read the entry was superseded under the record's sequence. Then forgetRecord keeps the record and
// restores the entry.
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
		return false, wrapForget(g, err) // a new request for the runtime is being handled
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
