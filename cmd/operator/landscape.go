package operator

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/config"
)

// poolsAtOnce is how many pools are read from Redis at the same time.
const poolsAtOnce = 8

// landscape has what Redis and Gardener say of the accounts, read once.
type landscape struct {
	pools    map[string]account.Status  // those that Redis has, and those of the labels
	bindings []bindingView              // by pool, then name
	guests   map[string]map[string]bool // by shared pool: the tenants that have clusters there
}

// place is a binding in the pool that has it.
type place struct{ pool, binding string }

// readLandscape reads Redis and Gardener, both whole and at the same time. Who
// has clusters in a shared pool stands in its runtimes only; those are read
// where guests are asked for.
func readLandscape(ctx context.Context, s *shell, cfg *config.Config, guests bool) (landscape, error) {
	store, err := openRedis(ctx, s, cfg)
	if err != nil {
		return landscape{}, err
	}
	client, tell, err := openGardener(ctx, s, cfg.Gardener)
	if err != nil {
		return landscape{}, err
	}
	defer tell()
	var labelled []engine.Binding
	records := records{known: map[place]account.Record{}, pools: map[string]account.Status{}}
	if guests {
		records.guests = map[string]map[string]bool{}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return gardenerError(client.List(ctx, func(b engine.Binding) error {
			labelled = append(labelled, b)
			return nil
		}))
	})
	group.Go(func() error { return records.read(ctx, store) })
	if err := group.Wait(); err != nil {
		return landscape{}, err
	}
	if err := records.complete(ctx, store, labelled); err != nil {
		return landscape{}, err
	}
	return sideBySide(records, labelled, termsOf(cfg)), nil
}

// records are those of Redis.
type records struct {
	known  map[place]account.Record
	pools  map[string]account.Status
	guests map[string]map[string]bool // nil where no command asks
}

func (r *records) read(ctx context.Context, store *counters.Store) error {
	names, err := store.Pools(ctx)
	if err != nil {
		return err
	}
	return r.readPools(ctx, store, names)
}

// complete looks at the pools that only labels name: no request may have come
// there yet.
func (r *records) complete(ctx context.Context, store *counters.Store, labelled []engine.Binding) error {
	missing := map[string]bool{}
	for _, b := range labelled {
		if _, known := r.pools[b.Pool().Name()]; !known {
			missing[b.Pool().Name()] = true
		}
	}
	return r.readPools(ctx, store, slices.Sorted(maps.Keys(missing)))
}

func (r *records) readPools(ctx context.Context, store *counters.Store, names []string) error {
	type read struct {
		status  account.Status
		records []account.NamedRecord
		guests  map[string]bool
	}
	found := make([]read, len(names))
	err := eachPool(ctx, names, func(ctx context.Context, i int, name string) (err error) {
		if found[i].status, err = store.Status(ctx, name); err != nil || !found[i].status.Built {
			return err
		}
		if r.guests != nil && engine.ParsePool(name).Shared {
			if found[i].guests, err = store.Tenants(ctx, name); err != nil && !errors.Is(err, account.ErrNotBuilt) {
				return err
			}
		}
		found[i].records, err = gather(store.Bindings(ctx, name))
		return err
	})
	if err != nil {
		return err
	}
	for i, name := range names {
		r.pools[name] = found[i].status
		if found[i].guests != nil {
			r.guests[name] = found[i].guests
		}
		for _, rec := range found[i].records {
			r.known[place{name, rec.Binding}] = rec.Record
		}
	}
	return nil
}

// eachPool calls f for several pools at once.
func eachPool(ctx context.Context, names []string, f func(ctx context.Context, i int, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(poolsAtOnce)
	for i, name := range names {
		group.Go(func() error { return f(ctx, i, name) })
	}
	return group.Wait()
}

// gather reads a sequence to its end. A pool that is lost on the way has nothing.
func gather[T any](all iter.Seq2[T, error]) ([]T, error) {
	var found []T
	for one, err := range all {
		if errors.Is(err, account.ErrNotBuilt) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// terms say how many clusters an account may have; 0 is no limit, or none that
// the configuration at hand tells.
type terms struct {
	decisions *config.Decisions
	some      map[string]int // for the tenants that may have several accounts
}

func termsOf(cfg *config.Config) terms {
	several := cfg.HAP.MultiHyperscalerAccount
	decisions, err := cfg.Decisions()
	if err != nil || len(several.AllowedGlobalAccounts) == 0 {
		return terms{}
	}
	return terms{decisions: decisions, some: several.Limits}
}

// ofTenant is the limit of an account of the tenant.
func (t terms) ofTenant(tenant, hyperscalerType string) int {
	if t.decisions == nil || tenant == "" {
		return 0
	}
	return t.decisions.Terms(tenant, providerOf(hyperscalerType)).Limit
}

// ofPool is the limit of the tenants that may have several accounts.
func (t terms) ofPool(p engine.Pool) int {
	if p.Shared {
		return 0
	}
	if limit, own := t.some[providerOf(p.HyperscalerType)]; own {
		return limit
	}
	return t.some[config.DefaultLimit]
}

func providerOf(hyperscalerType string) string {
	provider, _, _ := strings.Cut(hyperscalerType, "_")
	return provider
}

// sideBySide puts what both say of a binding into one row. A record in a pool
// that the labels do not put the binding into has a separate row.
func sideBySide(r records, labelled []engine.Binding, limits terms) landscape {
	l := landscape{pools: r.pools, guests: r.guests}
	byName := make(map[string]*engine.Binding, len(labelled))
	for i := range labelled {
		b := &labelled[i]
		byName[b.Name] = b
		at := place{b.Pool().Name(), b.Name}
		rec, known := r.known[at]
		l.bindings = append(l.bindings, newBindingView(at, b, recordIf(rec, known, r.pools[at.pool]), limits))
		delete(r.known, at)
	}
	for at, rec := range r.known {
		l.bindings = append(l.bindings, newBindingView(at, byName[at.binding], &rec, limits))
	}
	slices.SortFunc(l.bindings, func(a, b bindingView) int {
		return cmp.Or(natural(a.Pool, b.Pool), natural(a.Name, b.Name))
	})
	return l
}

// recordIf is nil where nothing is known: a pool that is not built. A binding
// without a record in a built pool is free.
func recordIf(rec account.Record, known bool, s account.Status) *account.Record {
	if !known {
		if !s.Built {
			return nil
		}
		rec = account.Record{State: account.Free}
	}
	return &rec
}

// sayUnbuilt tells of the pools that nothing can be told of.
func (l landscape) sayUnbuilt(s *shell) {
	var unbuilt []string
	for name, status := range l.pools {
		if !status.Built {
			unbuilt = append(unbuilt, name)
		}
	}
	if len(unbuilt) > 0 {
		slices.SortFunc(unbuilt, natural)
		s.say("not built in Redis: pool %s; a worker builds it with the next request for it, or when it starts", strings.Join(unbuilt, ", "))
	}
}
