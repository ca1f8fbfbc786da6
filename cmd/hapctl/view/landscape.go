package view

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/worker/config"
)

// poolsAtOnce is how many pools are read from Redis at the same time.
const poolsAtOnce = 8

// Landscape has what Redis and Gardener say of the accounts, read once.
type Landscape struct {
	Pools    map[string]account.Status  // those that Redis has, and those of the labels
	Bindings []Binding                  // by pool, then name
	Guests   map[string]map[string]bool // by shared pool: the tenants that have clusters there
}

// Place is a binding in the pool that has it.
type Place struct{ Pool, Binding string }

// ReadLandscape reads Redis and Gardener, both whole and at the same time. Who
// has clusters in a shared pool stands in its runtimes only; those are read
// where guests are asked for.
func ReadLandscape(ctx context.Context, s *cli.Shell, cfg *config.Config, guests bool) (Landscape, error) {
	store, err := cli.OpenRedis(ctx, s, cfg)
	if err != nil {
		return Landscape{}, err
	}
	client, tell, err := cli.OpenGardener(ctx, s, cfg.Gardener)
	if err != nil {
		return Landscape{}, err
	}
	defer tell()
	var labelled []engine.Binding
	records := Records{Known: map[Place]account.Record{}, Pools: map[string]account.Status{}}
	if guests {
		records.guests = map[string]map[string]bool{}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return cli.GardenerError(client.List(ctx, func(b engine.Binding) error {
			labelled = append(labelled, b)
			return nil
		}))
	})
	group.Go(func() error { return records.read(ctx, store) })
	if err := group.Wait(); err != nil {
		return Landscape{}, err
	}
	if err := records.complete(ctx, store, labelled); err != nil {
		return Landscape{}, err
	}
	return SideBySide(records, labelled, TermsOf(cfg)), nil
}

// Records are those of Redis.
type Records struct {
	Known  map[Place]account.Record
	Pools  map[string]account.Status
	guests map[string]map[string]bool // nil where no command asks
}

func (r *Records) read(ctx context.Context, store *counters.Store) error {
	names, err := store.Pools(ctx)
	if err != nil {
		return err
	}
	return r.readPools(ctx, store, names)
}

// complete looks at the pools that only labels name: no request may have come
// there yet.
func (r *Records) complete(ctx context.Context, store *counters.Store, labelled []engine.Binding) error {
	missing := map[string]bool{}
	for _, b := range labelled {
		if _, known := r.Pools[b.Pool().Name()]; !known {
			missing[b.Pool().Name()] = true
		}
	}
	return r.readPools(ctx, store, slices.Sorted(maps.Keys(missing)))
}

func (r *Records) readPools(ctx context.Context, store *counters.Store, names []string) error {
	type read struct {
		status  account.Status
		records []account.NamedRecord
		guests  map[string]bool
	}
	found := make([]read, len(names))
	err := EachPool(ctx, names, func(ctx context.Context, i int, name string) (err error) {
		if found[i].status, err = store.Status(ctx, name); err != nil || !found[i].status.Built {
			return err
		}
		if r.guests != nil && engine.ParsePool(name).Shared {
			if found[i].guests, err = store.Tenants(ctx, name); err != nil && !errors.Is(err, account.ErrNotBuilt) {
				return err
			}
		}
		found[i].records, err = Gather(store.Bindings(ctx, name))
		return err
	})
	if err != nil {
		return err
	}
	for i, name := range names {
		r.Pools[name] = found[i].status
		if found[i].guests != nil {
			r.guests[name] = found[i].guests
		}
		for _, rec := range found[i].records {
			r.Known[Place{name, rec.Binding}] = rec.Record
		}
	}
	return nil
}

// EachPool calls f for several pools at once.
func EachPool(ctx context.Context, names []string, f func(ctx context.Context, i int, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(poolsAtOnce)
	for i, name := range names {
		group.Go(func() error { return f(ctx, i, name) })
	}
	return group.Wait()
}

// Gather reads a sequence to its end. A pool that is lost on the way has nothing.
func Gather[T any](all iter.Seq2[T, error]) ([]T, error) {
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

// Terms say how many clusters an account may have; 0 is no limit, or none that
// the configuration at hand tells.
type Terms struct{ decisions *config.Decisions }

// TermsOf returns the limits of a configuration; where it has none, no limit is known.
func TermsOf(cfg *config.Config) Terms {
	decisions, err := cfg.Decisions()
	if err != nil || len(cfg.HAP.MultiHyperscalerAccount.AllowedGlobalAccounts) == 0 {
		return Terms{}
	}
	return Terms{decisions: decisions}
}

// ofTenant is the limit of an account of the tenant.
func (t Terms) ofTenant(tenant string, p engine.Pool) int {
	if t.decisions == nil || tenant == "" {
		return 0
	}
	return t.decisions.Terms(tenant, ProviderOf(p.HyperscalerType)).LimitIn(p)
}

// OfPool is the limit of the tenants that may have several accounts.
func (t Terms) OfPool(p engine.Pool) int {
	if t.decisions == nil {
		return 0
	}
	return t.decisions.Several(ProviderOf(p.HyperscalerType)).LimitIn(p)
}

// ProviderOf returns the provider of a hyperscaler type, as aws of aws_cf-eu11.
func ProviderOf(hyperscalerType string) string {
	provider, _, _ := strings.Cut(hyperscalerType, "_")
	return provider
}

// SideBySide puts what both say of a binding into one row. A record in a pool
// that the labels do not put the binding into has a separate row.
func SideBySide(r Records, labelled []engine.Binding, limits Terms) Landscape {
	l := Landscape{Pools: r.Pools, Guests: r.guests}
	byName := make(map[string]*engine.Binding, len(labelled))
	for i := range labelled {
		b := &labelled[i]
		byName[b.Name] = b
		at := Place{b.Pool().Name(), b.Name}
		rec, known := r.Known[at]
		l.Bindings = append(l.Bindings, NewBinding(at, b, RecordIf(rec, known, r.Pools[at.Pool]), limits))
		delete(r.Known, at)
	}
	for at, rec := range r.Known {
		l.Bindings = append(l.Bindings, NewBinding(at, byName[at.Binding], &rec, limits))
	}
	slices.SortFunc(l.Bindings, func(a, b Binding) int {
		return cmp.Or(natural.Compare(a.Pool, b.Pool), natural.Compare(a.Name, b.Name))
	})
	return l
}

// RecordIf is nil where nothing is known: a pool that is not built. A binding
// without a record in a built pool is free.
func RecordIf(rec account.Record, known bool, s account.Status) *account.Record {
	if !known {
		if !s.Built {
			return nil
		}
		rec = account.Record{State: account.Free}
	}
	return &rec
}

// SayUnbuilt tells of the pools that nothing can be told of.
func (l Landscape) SayUnbuilt(s *cli.Shell) {
	var unbuilt []string
	for name, status := range l.Pools {
		if !status.Built {
			unbuilt = append(unbuilt, name)
		}
	}
	if len(unbuilt) > 0 {
		slices.SortFunc(unbuilt, natural.Compare)
		s.Say("not built in Redis: pool %s; a worker builds it with the next request for it, or when it starts", strings.Join(unbuilt, ", "))
	}
}
