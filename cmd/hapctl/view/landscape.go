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
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/worker/config"
)

// poolsAtOnce is the number of pools that are read from Redis concurrently.
const poolsAtOnce = 8

// Landscape has the accounts in Redis and Gardener, read once.
type Landscape struct {
	Pools    map[string]account.Status  // all pools in Redis and in labels
	Bindings []Binding                  // by pool, then name
	Guests   map[string]map[string]bool // by shared pool: the tenants that have clusters there; nil if they were not read
}

// Place is a binding in a pool.
type Place struct{ Pool, Binding string }

// ReadLandscape reads all pools and bindings of Redis and Gardener. With guests, it also reads the runtimes
// of shared pools: only runtimes name the tenants that have clusters there.
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

// Records are the records in Redis.
type Records struct {
	Known  map[Place]account.Record
	Pools  map[string]account.Status
	guests map[string]map[string]bool // nil if they are not read
}

func (r *Records) read(ctx context.Context, store *counters.Store) error {
	names, err := store.Pools(ctx)
	if err != nil {
		return err
	}
	return r.readPools(ctx, store, names)
}

// complete reads the pools that only labels name: Redis may list a pool only after its first request.
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
			found[i].guests, err = store.Tenants(ctx, name)
		}
		if err == nil {
			found[i].records, err = Gather(store.Bindings(ctx, name))
		}
		if errors.Is(err, account.ErrNotBuilt) { // lost since its status was read
			found[i], err = read{}, nil
		}
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

// EachPool calls f for each pool, several at a time. It returns the first error.
func EachPool(ctx context.Context, names []string, f func(ctx context.Context, i int, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(poolsAtOnce)
	for i, name := range names {
		group.Go(func() error { return f(ctx, i, name) })
	}
	return group.Wait()
}

// Gather collects a sequence. If it meets an error, it returns only that: account.ErrNotBuilt if the pool is not
// built, or is lost during the read.
func Gather[T any](all iter.Seq2[T, error]) ([]T, error) {
	var found []T
	for one, err := range all {
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// Terms are the limits of clusters per account. 0 means no limit, or an unknown one.
type Terms struct{ decisions *terms.Decisions }

// TermsOf returns the limits of a configuration. All are 0 if no tenant may have several accounts, or if the
// configuration is invalid.
func TermsOf(cfg *config.Config) Terms {
	decisions, err := cfg.Decisions()
	if err != nil || len(cfg.HAP.MultiHyperscalerAccount.AllowedGlobalAccounts) == 0 {
		return Terms{}
	}
	return Terms{decisions: decisions}
}

// ofTenant returns the limit of the tenant's accounts in a pool.
func (t Terms) ofTenant(tenant string, p engine.Pool) int {
	if t.decisions == nil || tenant == "" {
		return 0
	}
	return t.decisions.Terms(tenant, ProviderOf(p.HyperscalerType)).LimitIn(p)
}

// OfPool returns the pool's limit for tenants that may have several accounts.
func (t Terms) OfPool(p engine.Pool) int {
	if t.decisions == nil {
		return 0
	}
	return t.decisions.Several(ProviderOf(p.HyperscalerType)).LimitIn(p)
}

// ProviderOf returns the provider of a hyperscaler type, such as aws for aws_cf-eu11.
func ProviderOf(hyperscalerType string) string {
	provider, _, _ := strings.Cut(hyperscalerType, "_")
	return provider
}

// SideBySide joins the records and the labels of each binding in one row. A record in another pool than the
// labels' has a separate row. It deletes the records in the labels' pools from r.Known.
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

// RecordIf returns rec if it is known. Otherwise it returns a free record if the pool is built, and nil if
// not.
func RecordIf(rec account.Record, known bool, s account.Status) *account.Record {
	if !known {
		if !s.Built {
			return nil
		}
		rec = account.Record{State: account.Free}
	}
	return &rec
}

// SayUnbuilt tells the user which pools are not built.
func (l Landscape) SayUnbuilt(s *cli.Shell) {
	var unbuilt []string
	for name, status := range l.Pools {
		if !status.Built {
			unbuilt = append(unbuilt, name)
		}
	}
	SayUnbuilt(s, unbuilt)
}

// SayUnbuilt tells the user that these pools are not built.
func SayUnbuilt(s *cli.Shell, unbuilt []string) {
	if len(unbuilt) > 0 {
		slices.SortFunc(unbuilt, natural.Compare)
		s.Say("not built in Redis: pool %s; a worker builds it with the next request for it, or when it starts", strings.Join(unbuilt, ", "))
	}
}
