package retention

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// grave is a tombstone in Redis: the record of a runtime that is gone or has left a pool (rule 16), or an
// entry of the directory.
type grave struct {
	runtime string
	pool    string // pool of the record; "" for an entry of the directory
	number  int64  // sequence of the record
	moved   bool   // the record says that the runtime has left the pool
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
				all[p.Runtime] = append(all[p.Runtime], grave{runtime: p.Runtime})
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

// orphaned returns up to about Limit of the found tombstones: those of runtimes without a reply, a Shoot or a note.
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

// burial is a runtime that is being forgotten.
type burial struct {
	graves []grave       // its tombstones
	was    account.Place // its entry of the directory, the zero Place for none
	mark   account.Place // the tentative entry in its stead, the zero Place for none
}

func (b *burial) runtime() string { return b.graves[0].runtime }

// forget removes runtimes from Redis that the ledger no longer knows. First it makes their entries tentative: a request
// that asks for the place from then on finds the runtime gone, and makes the entry permanent. Once all workers that may
// have read an earlier entry are done, and if the ledger still does not know the runtime, forget drops the records, and
// the entry if it is still tentative. Without that, a request that has read an entry or a record could be answered
// "gone" by it, and the next request, which finds none, be assigned.
func (r *Purger) forget(ctx context.Context, graves []grave, info *observe.Retention) error {
	var all []*burial
	for _, g := range graves {
		if n := len(all); n > 0 && all[n-1].runtime() == g.runtime {
			all[n-1].graves = append(all[n-1].graves, g)
			continue
		}
		all = append(all, &burial{graves: []grave{g}})
	}
	if len(all) == 0 {
		return nil
	}
	for _, b := range all {
		if err := r.mark(ctx, b); err != nil {
			return b.failed(err)
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
	settled := now.First > before.Last // or else a later pass drops what is found
	if !settled {
		info.Kept[observe.KeptBacklog] += len(all)
	}
	for _, b := range all {
		if err := r.finish(ctx, b, settled, info); err != nil {
			return b.failed(err)
		}
	}
	return nil
}

// finish buries the runtime if settled is true and the ledger does not know it, and puts its entry back otherwise.
func (r *Purger) finish(ctx context.Context, b *burial, settled bool, info *observe.Retention) error {
	if !settled {
		return r.putBack(ctx, b)
	}
	switch known, err := r.known(ctx, b.runtime()); {
	case err != nil:
		return err
	case known:
		return r.putBack(ctx, b)
	}
	return r.bury(ctx, b, info)
}

// mark makes the entry of a runtime tentative if it says that the runtime is gone, or names a pool whose record says
// so, or if there is none.
func (r *Purger) mark(ctx context.Context, b *burial) (err error) {
	if b.was, err = r.Records.Place(ctx, b.runtime()); err != nil {
		return err
	}
	if b.was.Pool != "" {
		seen := slices.IndexFunc(b.graves, func(g grave) bool { return g.pool == b.was.Pool && !g.moved })
		if seen < 0 {
			return nil // it lives in another pool
		}
		rt, err := r.Records.RuntimeIn(ctx, b.was.Pool, b.runtime())
		if err != nil || rt.State != account.RuntimeGone || rt.Sequence != b.graves[seen].number {
			return err
		}
	}
	b.mark, err = r.Records.BeginForgetting(ctx, b.runtime(), b.was)
	return err
}

// putBack replaces a tentative entry by the one that was there before. If that was another pass's tentative one, or
// none, the entry names the pool of the runtime's record; without such a record it becomes permanent, or is dropped.
func (r *Purger) putBack(ctx context.Context, b *burial) error {
	if b.mark == (account.Place{}) {
		return nil
	}
	back := b.was
	if back.Tentative || back == (account.Place{}) {
		back.Tentative = false
		if gone := slices.IndexFunc(b.graves, func(g grave) bool { return g.pool != "" && !g.moved }); gone >= 0 {
			back = account.Place{Pool: b.graves[gone].pool}
		}
	}
	if back == (account.Place{}) {
		_, err := r.Records.ForgetPlace(ctx, b.runtime(), b.mark)
		return err
	}
	_, err := r.Records.MovePlace(ctx, b.runtime(), b.mark, back)
	return err
}

// bury drops the records of a runtime to which no entry leads, and then its entry if it is tentative still.
func (r *Purger) bury(ctx context.Context, b *burial, info *observe.Retention) error {
	for _, g := range b.graves {
		if g.pool == "" {
			continue
		}
		place, err := r.Records.Place(ctx, g.runtime)
		if err != nil {
			return err
		}
		if place.Pool == g.pool {
			continue // a new request for the runtime is being handled
		}
		dropped, err := r.Records.Forget(ctx, g.pool, g.runtime, g.number)
		if err != nil {
			return err
		}
		if dropped {
			info.Forgotten++
		}
	}
	if b.mark == (account.Place{}) {
		return nil
	}
	dropped, err := r.Records.ForgetPlace(ctx, b.runtime(), b.mark)
	if dropped && b.was != (account.Place{}) {
		info.Forgotten++
	}
	return err
}

func (b *burial) failed(err error) error {
	return fmt.Errorf("forget runtime %s in Redis: %w", b.runtime(), err)
}
