package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// candidate is a runtime of which an old reply says that it is gone. A later reply may say otherwise.
type candidate struct {
	since   time.Time // when that reply was stored
	runtime string
}

func (c candidate) compare(o candidate) int {
	return cmp.Or(c.since.Compare(o.since), cmp.Compare(c.runtime, o.runtime))
}

// oldest collects the candidates that have been gone longest, up to limit.
type oldest struct {
	limit int
	all   []candidate
	more  bool // some were left out
}

func (o *oldest) add(c candidate) {
	if o.all = append(o.all, c); len(o.all) >= 2*o.limit {
		o.cut()
	}
}

func (o *oldest) cut() {
	slices.SortFunc(o.all, candidate.compare)
	if len(o.all) > o.limit {
		o.all, o.more = o.all[:o.limit], true
	}
}

// around is the state outside of the ledger that a pass reads once.
type around struct {
	cutoff  time.Time // runtimes with a younger reply are kept
	backlog storage.Backlog
	lodged  map[string]bool // runtimes that a Shoot names
	noted   map[string]bool // runtimes that a ClusterConfig or a Cluster names
}

// reached is how far earlier passes of Once have come: the last candidate that they examined, and the position of
// the last reply that apart collected.
type reached struct {
	candidate candidate
	apart     uint64
}

// errAllYoung ends the reading of the ledger: the replies that follow are too young, and each tombstone has a reply.
var errAllYoung = errors.New("what follows is too young")

// pass forgets up to Limit of the candidates that come after the last one in after, oldest first. It also removes up to
// about Limit tombstones of runtimes without any reply, and up to Limit of the replies that apart collects. It returns
// how far it came, and whether there are more candidates or replies.
func (r *Purger) pass(ctx context.Context, after reached, info *observe.Retention) (reached, bool, error) {
	// Read Redis, then the backlog, then the ledger. If a release is decided and its reply is not
	// published, its event is in the backlog.
	orphans, err := r.tombstones(ctx)
	if err != nil {
		return after, false, err
	}
	before, err := r.Ledger.Backlog(ctx)
	if err != nil {
		return after, false, err
	}
	found, alone := oldest{limit: r.Limit}, apart{limit: r.Limit, after: after.apart}
	now := r.Now()
	cutoff := now.Add(-r.Keep)
	err = r.Ledger.FactsAfter(ctx, 0, func(f storage.Fact) error {
		old := f.Time.Before(cutoff)
		if !old && !f.Time.After(now) && len(orphans) == 0 { // NATS' clock may have been ahead
			return errAllYoung
		}
		if old {
			alone.add(f)
		}
		delete(orphans, f.RuntimeID)
		c := candidate{since: f.Time, runtime: f.RuntimeID}
		if old && f.Answer().State == account.RuntimeGone && c.compare(after.candidate) > 0 {
			found.add(c)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errAllYoung) {
		return after, false, fmt.Errorf("read the ledger: %w", err)
	}
	found.cut()
	if err := r.removeApart(ctx, alone.all, info); err != nil {
		return after, false, err
	}
	if n := len(alone.all); n > 0 {
		after.apart = alone.all[n-1].Position
	}
	if len(found.all)+len(orphans) == 0 {
		return after, alone.more, nil
	}
	seen, err := r.look(ctx, cutoff)
	if err != nil {
		return after, false, err
	}
	var graves []grave
	done := map[string]bool{}
	for _, c := range found.all {
		if !done[c.runtime] {
			done[c.runtime] = true
			purged, err := r.purge(ctx, c.runtime, seen, info)
			if err != nil {
				return after, false, err
			}
			graves = append(graves, purged...)
		}
		after.candidate = c
	}
	left, err := r.orphaned(ctx, orphans, before, seen, info)
	if err != nil {
		return after, false, err
	}
	return after, found.more || alone.more, r.forget(ctx, append(graves, left...), info)
}

// look reads the backlog, the Shoots, and the ClusterConfigs and Clusters that name network blocks. Each of these may
// still need a runtime.
func (r *Purger) look(ctx context.Context, cutoff time.Time) (around, error) {
	a := around{cutoff: cutoff, lodged: map[string]bool{}, noted: map[string]bool{}}
	var err error
	if a.backlog, err = r.Ledger.Backlog(ctx); err != nil {
		return a, err
	}
	lodge := func(s engine.Shoot) { a.lodged[account.RuntimeOf(s)] = true }
	if err = r.Gardener.EachShoot(ctx, func() { clear(a.lodged) }, lodge); err != nil {
		return a, fmt.Errorf("list the Shoots: %w", err)
	}
	if r.Notes == nil {
		return a, nil
	}
	notes, err := r.Notes.All(ctx)
	if err != nil {
		return a, fmt.Errorf("read what is noted of network blocks: %w", err)
	}
	for _, n := range slices.Concat(notes.Configs, notes.Clusters) {
		a.noted[n.Runtime] = true
	}
	return a, nil
}

// purge deletes the replies of a runtime if nothing needs them, and returns its tombstones in Redis. It
// deletes the release last, after it has seen that the runtime's pools, its bucket of the directory and the
// network ranges are built. A rebuild that has read an older reply has to find the release too, unless these
// are built: then it can no longer install them.
func (r *Purger) purge(ctx context.Context, runtime string, seen around, info *observe.Retention) ([]grave, error) {
	told, because, err := r.examine(ctx, runtime, seen)
	if err != nil || told.last == 0 {
		return nil, err // no replies: another worker was faster
	}
	if because == "" {
		because, err = r.needed(ctx, runtime, told, seen)
	}
	var graves []grave
	if err == nil && because == "" {
		if err := r.Ledger.Forget(ctx, runtime, told.release-1); err != nil {
			return nil, err
		}
		graves, because, err = r.lies(ctx, runtime, told)
	}
	because, err = r.unlessLost(told.pool, because, err)
	if err != nil {
		return nil, err
	}
	if because != "" {
		info.Kept[because]++
		return nil, nil
	}
	if r.Leftover != nil {
		if err := r.Leftover(ctx, runtime); err != nil && !errors.Is(err, account.ErrNotBuilt) {
			return nil, err
		}
	}
	if err := r.Ledger.Forget(ctx, runtime, told.last); err != nil {
		return nil, err
	}
	info.Purged++
	return graves, nil
}

// unlessLost returns because and err. If err is account.ErrNotBuilt, it requests a rebuild and returns
// KeptNotBuilt and no error instead.
func (r *Purger) unlessLost(pool string, because observe.KeptBecause, err error) (observe.KeptBecause, error) {
	if !errors.Is(err, account.ErrNotBuilt) {
		return because, err
	}
	r.Rebuild.Wanted(pool) // by name: perhaps no binding is in this pool any more
	return observe.KeptNotBuilt, nil
}

// testimony summarizes the replies of a runtime.
type testimony struct {
	pools   map[string]bool // pools that they name; "" for replies without one
	pool    string          // pool of the release
	binding string          // binding of the release
	since   int64           // decision sequence of the last assignment
	on      [2]string       // pool and binding of the last assignment
	number  int64           // decision sequence of the reply in force
	release uint64          // stream sequence of the reply in force
	last    uint64          // stream sequence of the last reply; 0 if there is none
	newest  time.Time
}

// examine reads all replies of a runtime, and returns why they have to be kept, or "".
func (r *Purger) examine(ctx context.Context, runtime string, seen around) (t testimony, because observe.KeptBecause, err error) {
	t.pools = map[string]bool{}
	var inForce account.RuntimeState
	err = r.Ledger.OfRuntime(ctx, runtime, func(stored events.Stored) error {
		t.last = max(t.last, stored.Sequence)
		if stored.Foreign != nil {
			because = observe.KeptForeign // it may be a newer version's reply, and in force
			return nil                    //nolint:nilerr // it keeps the runtime, and no other one
		}
		if stored.Time.After(t.newest) {
			t.newest = stored.Time
		}
		a := storage.FactOf(stored.Reply).Answer()
		t.pools[a.Pool] = true
		if a.State == account.RuntimeAssigned && a.Sequence >= t.since {
			t.since, t.on = a.Sequence, [2]string{a.Pool, a.Binding}
		}
		switch {
		case stored.Reply.Status == events.StatusWaiting:
			because = observe.KeptWaiting
		case a.State == "" || a.Sequence == 0 || a.Sequence < t.number:
		case a.Sequence > t.number || a.State == account.RuntimeGone && inForce != account.RuntimeGone:
			inForce, t.number, t.release = a.State, a.Sequence, stored.Sequence
			t.pool, t.binding = a.Pool, a.Binding
		case a.Binding != "" && a.State == account.RuntimeGone:
			t.pool, t.binding = a.Pool, a.Binding // a Superseded has the release's sequence and no binding
		}
		return nil
	})
	if t.binding == "" && t.on[0] == t.pool {
		t.binding = t.on[1] // only a Superseded is stored, which names no binding
	}
	switch {
	case err != nil || because != "" || t.last == 0:
	case t.newest.After(seen.cutoff):
		because = observe.KeptYounger
	case inForce != account.RuntimeGone:
		because = observe.KeptInForce
	case !seen.backlog.Oldest.IsZero() && !seen.backlog.Oldest.After(t.newest):
		because = observe.KeptBacklog
	}
	return t, because, err
}

// needed returns why a released runtime is still needed outside of the ledger, or "".
func (r *Purger) needed(ctx context.Context, runtime string, told testimony, seen around) (observe.KeptBecause, error) {
	switch {
	case seen.lodged[runtime]:
		return observe.KeptShoot, nil // without replies, a rebuild would adopt its cluster
	case seen.noted[runtime]:
		return observe.KeptBlocks, nil
	}
	var because observe.KeptBecause
	err := r.Room.Addresses(ctx, runtime, func(events.WaitingAddress, *events.Foreign) error {
		because = observe.KeptWaiting
		return nil
	})
	if err != nil || because != "" {
		return because, err
	}
	if told.binding != "" {
		rec, err := r.Records.Binding(ctx, told.pool, told.binding)
		if err != nil {
			return "", err
		}
		// Until the label is dirty, only the release tells a rebuild that this account is to become dirty.
		if label, _ := r.Gardener.Cached(told.binding); rec.State == account.Draining || rec.State == account.Dirtying && !label.Dirty {
			return observe.KeptDraining, nil
		}
	}
	_, because, err = r.lies(ctx, runtime, told)
	return because, err
}

// lies returns the tombstones of a runtime that is gone, or why it has to be kept. If it returns neither a
// reason nor an error, the runtime's pools, its bucket of the directory and the network ranges, if any, are built.
func (r *Purger) lies(ctx context.Context, runtime string, told testimony) ([]grave, observe.KeptBecause, error) {
	if r.Blocks != nil {
		blocks, err := r.Blocks.Applied(ctx, runtime)
		if err != nil {
			return nil, "", err
		}
		if len(blocks) > 0 {
			return nil, observe.KeptBlocks, nil
		}
	}
	place, err := r.Records.Place(ctx, runtime)
	if err != nil {
		return nil, "", err
	}
	graves := []grave{{runtime: runtime}}
	pools := maps.Clone(told.pools)
	pools[place.Pool] = true
	for pool := range pools {
		if pool == "" {
			continue
		}
		rt, err := r.Records.RuntimeIn(ctx, pool, runtime)
		g, dead := graveIn(pool, account.NamedRuntime{ID: runtime, Runtime: rt})
		switch {
		case err != nil:
			return nil, "", err
		case dead && (pool != place.Pool || !g.moved):
			graves = append(graves, g)
		case rt.State != "":
			return nil, observe.KeptDiffers, nil
		}
	}
	return graves, "", nil
}
