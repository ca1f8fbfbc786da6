package reconcile

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/dirtying"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// everything is one sweep: it compares all labels with Redis (rule 10), and marks accounts that drain or
// whose marking was interrupted (rule 8). It also requests a check of the epochs (rule 15), since the scripts
// that it calls succeed on a server whose epochs are not in force, too. While no sweep is due, it only reads the names
// of the pools and requests that check.
func (s *Labels) everything(ctx context.Context) error {
	var errs error
	empty := map[string]vacant{}
	pools, err := s.pools(ctx)
	if err != nil {
		return err
	}
	s.Rebuild.Wanted("")
	if !s.pace.Due() {
		return nil
	}
	begin := time.Now()
	records := map[engine.Pool]map[string]account.Record{}
	for pool := range pools {
		read, err := s.records(ctx, pool)
		if errs = join(errs, err); err == nil {
			records[pool] = read
		}
	}
	for b := range s.Cache.All() {
		pool := b.Pool()
		if of, read := records[pool]; read {
			if err := s.compare(ctx, pool, b, of, empty); err != nil {
				errs = join(errs, err)
				delete(records, pool) // the next sweep goes on with it
			}
		}
	}
	for pool, others := range records {
		errs = join(errs, s.withoutBinding(ctx, pool, others))
	}
	if errs == nil && len(empty) == 0 {
		s.pace.Rest(begin)
	}
	return join(errs, s.markVacant(ctx, empty))
}

// pools returns the dedicated pools of the labels and of Redis, which may know a pool without bindings. It
// passes the names of the shared ones to the worker: those of the labels, and those that have records in Redis.
// Requests may have named any number of others, which no claim is to ask.
func (s *Labels) pools(ctx context.Context) (map[engine.Pool]struct{}, error) {
	pools := map[engine.Pool]struct{}{}
	var shared []string
	for _, pool := range s.Cache.Pools() {
		if pool.Shared {
			shared = append(shared, pool.Name())
		} else {
			pools[pool] = struct{}{}
		}
	}
	known, err := s.Follower.Pools(ctx)
	for _, name := range known {
		if pool := engine.ParsePool(name); !pool.Shared {
			pools[pool] = struct{}{}
		} else if !slices.Contains(shared, name) && s.hasRecords(ctx, name) {
			shared = append(shared, name)
		}
	}
	if err == nil {
		s.Worker.SharedPools(shared)
	}
	return pools, err
}

// hasRecords reports whether a pool has records of bindings in Redis, or may have some. It requests a rebuild of a pool
// that is not built.
func (s *Labels) hasRecords(ctx context.Context, pool string) bool {
	for _, err := range s.Follower.Bindings(ctx, pool) {
		_ = s.notBuilt(err, pool)
		return true
	}
	return false
}

// vacant is a binding without runtimes that is to be marked dirty.
type vacant struct {
	pool   string
	record account.Record
}

// records returns the records of a pool, by binding.
func (s *Labels) records(ctx context.Context, pool engine.Pool) (map[string]account.Record, error) {
	records := map[string]account.Record{}
	for b, err := range s.Follower.Bindings(ctx, pool.Name()) {
		if err != nil {
			return nil, s.notBuilt(err, pool.Name())
		}
		records[b.Binding] = b.Record
	}
	return records, nil
}

// compare updates a binding's record from its labels if they differ, adds the binding to empty if it is to become
// dirty, and removes it from the records of its pool.
func (s *Labels) compare(ctx context.Context, pool engine.Pool, b engine.Binding, records map[string]account.Record, empty map[string]vacant) error {
	r := records[b.Name]
	if contradicts(b, r) {
		if now, known := s.cachedIn(pool, b.Name); known {
			b = now // the labels may have changed since All began
		}
		if err := s.follow(ctx, b); err != nil {
			return err
		}
		s.Worker.WakeTenant(pool.Name(), b.Tenant)
	}
	if r.Count == 0 && !b.Dirty && (r.State == account.Draining || r.State == account.Dirtying) {
		empty[b.Name] = vacant{pool.Name(), r}
	}
	delete(records, b.Name)
	return nil
}

// withoutBinding ends the records of bindings that are no longer in the pool, except those in claiming: the worker
// that claims reads the label itself.
func (s *Labels) withoutBinding(ctx context.Context, pool engine.Pool, records map[string]account.Record) error {
	for name, r := range records {
		if _, known := s.cachedIn(pool, name); !known && r.State != account.Claiming {
			if err := s.forget(ctx, name, pool); err != nil {
				return err
			}
			s.Worker.WakeTenant(pool.Name(), "")
		}
	}
	return nil
}

// cachedIn returns a binding from the cache, and whether it is in the pool.
func (s *Labels) cachedIn(pool engine.Pool, name string) (engine.Binding, bool) {
	b, known := s.Cache.Cached(name)
	return b, known && b.Pool() == pool
}

const (
	// markings is the maximum number of bindings that a sweep marks concurrently. They share reads of the Shoots.
	markings = 8
	// mostFailures is the number of markings in a row that fail before the sweep leaves the others to
	// the next one. Then it is likely that a common dependency fails.
	mostFailures = 3
	// While an account cannot be marked, the pause before the next list of the Shoots is a tenth
	// (1/lookShare) of the time since a sweep first found that, at most longestLook: a cluster may take
	// days to go, and an internal account is never marked.
	lookShare   = 10
	longestLook = 5 * time.Minute
)

// wait is the state of an account that cannot be marked yet.
type wait struct {
	since, again time.Time // since when it cannot be marked, and when to list the Shoots again
	failed       time.Time // start of the last sweep that tried to mark it, if that ended with an error
}

// longer returns the wait after another sweep, begun at now, that did not mark the account.
func (w wait) longer(now time.Time) wait {
	since := w.since
	if since.IsZero() {
		since = now
	}
	return wait{since: since, again: now.Add(min(now.Sub(since)/lookShare, longestLook))}
}

// markVacant marks the bindings to which no Shoot refers. It lists the Shoots once and skips the bindings in
// use; MarkDirty checks the others again. It does nothing if every binding has to wait for its next look at the
// Shoots (wait.again). Bindings whose marking failed come last, the latest failure last, so that they do not
// delay the others.
func (s *Labels) markVacant(ctx context.Context, empty map[string]vacant) error {
	now := s.Now()
	s.mu.Lock()
	before := s.waits
	s.mu.Unlock()
	waits := make(map[string]wait, len(empty))
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waits = waits
	}()
	due := false
	for binding := range empty {
		w := before[binding]
		due = due || !w.again.After(now)
		if w != (wait{}) {
			waits[binding] = w
		}
	}
	if !due {
		return nil
	}
	if err := s.passOver(ctx, empty, waits, now); err != nil {
		return err
	}
	var (
		marking errgroup.Group
		mu      sync.Mutex
		errs    error
		row     int
	)
	marking.SetLimit(markings)
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return row >= mostFailures || ctx.Err() != nil
	}
	for _, binding := range slices.SortedFunc(maps.Keys(empty), func(a, b string) int {
		return cmp.Or(before[a].failed.Compare(before[b].failed), cmp.Compare(a, b))
	}) {
		if enough() {
			break
		}
		marking.Go(func() error {
			became, err := s.mark(ctx, empty[binding].pool, binding, empty[binding].record)
			mu.Lock()
			defer mu.Unlock()
			errs = join(errs, err)
			w := waits[binding].longer(now)
			if row++; err == nil {
				row = 0
			} else {
				w.failed = now
			}
			if waits[binding] = w; became == dirtying.Marked || became == dirtying.Unclaimed {
				delete(waits, binding)
			}
			return nil
		})
	}
	_ = marking.Wait() // the errors are in errs, all of them
	return errs
}

// passOver removes the bindings in use from empty, and records in waits when to check them again. It leaves both as they
// are after an error.
func (s *Labels) passOver(ctx context.Context, empty map[string]vacant, waits map[string]wait, now time.Time) error {
	used := map[string]bool{}
	err := s.Cache.EachShoot(ctx, func() { clear(used) }, func(shoot engine.Shoot) {
		if _, is := empty[shoot.Binding]; is {
			used[shoot.Binding] = true
		}
	})
	if err != nil {
		return err
	}
	for binding := range used {
		delete(empty, binding)
		waits[binding] = waits[binding].longer(now)
	}
	return nil
}

// contradicts reports whether label and record differ, so that the script has to be called.
func contradicts(b engine.Binding, r account.Record) bool {
	switch r.State {
	case "", account.Free:
		return b.Tenant != "" || b.Dirty
	case account.Claiming:
		return false // a worker is about to write its label
	default:
		return b.Tenant != r.Tenant || b.Dirty != (r.State == account.Dirtying) || b.Dirty && b.Generation < r.Generation
	}
}

// mark marks an account dirty that the deprovision could not mark (rule 8), in the same steps. If a Shoot
// refers to the account by now, its label stays as it is, and a later sweep tries again.
func (s *Labels) mark(ctx context.Context, pool, binding string, r account.Record) (dirtying.Marking, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Budget)
	defer cancel()
	became, err := s.Worker.MarkDirty(ctx, pool, binding, r.Tenant, r.Generation)
	if became == dirtying.Marked {
		s.Observer.Followed(ctx, observe.Followed{Binding: binding, Pool: pool, Observation: account.Observation{
			Change: account.BecameDirtying, Before: r, Record: r,
		}})
	}
	return became, err
}
