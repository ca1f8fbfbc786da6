package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/natural"
)

const (
	// poolsAtOnce is how many pools a read of the state reads at once: the worker uses the same connections.
	poolsAtOnce = 4
)

// read reads the state. Its Faults have one failure for each part that fails; the rest of the state is filled as far
// as it could be read.
func read(ctx context.Context, from *Sources, settings Settings, now func() time.Time) *state {
	begun := now()
	s := &state{Taken: begun}
	if from == nil {
		s.Faults = []fault{{Part: Worker, Says: "is starting and not connected to everything yet"}}
		return s
	}
	s.Read, s.Circuits = true, circuitsOf(from)
	var found faults
	var all sync.WaitGroup
	all.Go(func() { found.check(ctx, from.Checks) })
	all.Go(func() {
		s.Past = from.past.Look(ctx)
		found.add(NATS, "cannot tell what was answered", s.Past.Err)
	})
	all.Go(func() { s.readPoolsAndWaiting(ctx, from, settings, &found) })
	all.Go(func() { found.add(Ranges, "cannot be read", s.readNetworks(ctx, from)) })
	all.Wait()
	if err := s.unbuilt(); err != nil {
		found.put(fault{
			Part: Redis, Says: "does not have some pools: a worker builds them with the next request",
			Only: "requests for these pools are not decided; the others are.",
		}, err)
	}
	s.Faults = found.sorted()
	slices.SortFunc(s.Pools, byUrgency)
	s.Took = now().Sub(begun)
	return s
}

// unbuilt returns an error that names the pools that Redis has not built, nil for none. It leaves out unread pools.
func (s *state) unbuilt() error {
	var names []string
	for _, p := range s.Pools {
		if !p.Unread && !p.Status.Built {
			names = append(names, p.Name())
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return errors.New("not built: " + strings.Join(names, ", "))
}

// byUrgency sorts pools by how soon they need an operator: by urgency, then by the number of waiting
// requests, most first, then by the forecast time until no account can be claimed.
func byUrgency(a, b *pool) int {
	return cmp.Or(
		cmp.Compare(a.Urgency(), b.Urgency()), cmp.Compare(b.Waiting.Count, a.Waiting.Count),
		cmp.Compare(a.lasts(), b.lasts()), cmp.Compare(a.Name(), b.Name()),
	)
}

// readPoolsAndWaiting reads the pools from Redis and, concurrently, what waits for them from NATS. So if one of them
// hangs, the other is still read in time, and only the one that hangs is named as faulty.
func (s *state) readPoolsAndWaiting(ctx context.Context, from *Sources, settings Settings, found *faults) {
	const silent, unread = "does not answer, counts are missing", "cannot say which requests wait"
	var room sync.WaitGroup
	var oldest map[string][]waiter
	room.Go(func() {
		var err error
		oldest, err = s.readOldest(ctx, from.Room)
		found.add(NATS, unread, err)
	})
	found.add(Redis, silent, s.readPools(ctx, from, settings))
	room.Wait()
	if s.Queued {
		room, queue := s.readQueues(ctx, from, oldest)
		found.add(NATS, unread, room)
		found.add(Redis, silent, queue)
	}
	s.countWaiting()
}

// readPools reads the pools with labelled accounts, and the others for which Redis has waiting requests. If Redis
// fails, the labelled accounts are still listed, in the state Unknown.
func (s *state) readPools(ctx context.Context, from *Sources, settings Settings) error {
	labelled := map[engine.Pool][]engine.Binding{}
	for b := range from.Accounts.All() {
		labelled[b.Pool()] = append(labelled[b.Pool()], b)
	}
	for of := range labelled {
		s.Pools = append(s.Pools, &pool{Pool: of, counts: map[account.State]int{}})
	}
	names, failed := from.Records.Pools(ctx)
	for _, name := range names {
		if s.pool(name) == nil {
			s.Pools = append(s.Pools, unlabelled(name))
		}
	}
	slices.SortFunc(s.Pools, func(a, b *pool) int { return cmp.Compare(a.Name(), b.Name()) })
	s.forecast(from)
	group := errgroup.Group{}
	group.SetLimit(poolsAtOnce)
	for _, p := range s.Pools {
		group.Go(func() error { return p.read(ctx, from.Records, settings, labelled[p.Pool]) })
	}
	err := cmp.Or(group.Wait(), failed)
	s.Pools = slices.DeleteFunc(s.Pools, func(p *pool) bool { return p.Unlabelled && p.Status.Waiting == 0 })
	s.Tenants = severalAccounts(s.Pools)
	return err
}

// unlabelled returns a pool for which no account is labelled.
func unlabelled(name string) *pool {
	return &pool{Pool: engine.ParsePool(name), counts: map[account.State]int{}, Unlabelled: true}
}

// forecast stores how long the free accounts of each pool will last, for the pools that have a forecast.
func (s *state) forecast(from *Sources) {
	if from.Exhaustions == nil {
		return
	}
	left := map[string]float64{}
	from.Exhaustions(func(pool string, seconds float64) { left[pool] = seconds })
	for _, p := range s.Pools {
		p.left, p.forecast = left[p.Name()]
	}
}

func (p *pool) read(ctx context.Context, from Records, settings Settings, labelled []engine.Binding) error {
	var known map[string]account.Record
	var err error
	if p.Status, err = from.Status(ctx, p.Name()); err == nil && p.Status.Built {
		known, err = recordsOf(ctx, from, p.Name())
	}
	p.Unread, p.Status.Built = err != nil, known != nil
	provider, _, _ := strings.Cut(p.HyperscalerType, "_")
	tenants := map[string]bool{}
	add := func(a acct) {
		if a.Tenant != "" {
			tenants[a.Tenant] = true
			a.Limit = settings.Terms(a.Tenant, provider).LimitIn(p.Pool)
		}
		p.add(a)
	}
	p.accounts = make([]acct, 0, len(labelled))
	for i := range labelled {
		var rec *account.Record
		if known != nil {
			of := known[labelled[i].Name]
			rec = &of
		}
		add(newAccount(labelled[i].Name, &labelled[i], rec))
		delete(known, labelled[i].Name)
	}
	for name, rec := range known {
		add(newAccount(name, nil, &rec))
	}
	p.Tenants = len(tenants)
	return err
}

// recordsOf returns the records of a pool by binding. It returns nil if the pool was lost since its status
// was read.
func recordsOf(ctx context.Context, from Records, pool string) (map[string]account.Record, error) {
	known := map[string]account.Record{}
	for rec, err := range from.Bindings(ctx, pool) {
		if errors.Is(err, account.ErrNotBuilt) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		known[rec.Binding] = rec.Record
	}
	return known, nil
}

// owned are the states in which an account belongs to a tenant and is not about to be cleaned.
var owned = []account.State{account.Claiming, account.InUse, account.Draining}

// severalAccounts returns an entry for each tenant and pool in which the tenant has more than one account; those with
// most accounts come first.
func severalAccounts(pools []*pool) []tenant {
	var found []tenant
	for _, p := range pools {
		first, more := map[string]int{}, map[string][]acct{}
		for i, a := range p.accounts {
			if a.Tenant == "" || !slices.Contains(owned, a.Standing) {
				continue
			}
			if at, seen := first[a.Tenant]; seen {
				if more[a.Tenant] == nil {
					more[a.Tenant] = []acct{p.accounts[at]}
				}
				more[a.Tenant] = append(more[a.Tenant], a)
				continue
			}
			first[a.Tenant] = i
		}
		for name, of := range more {
			t := tenant{Name: name, Pool: p.Name(), Accounts: of}
			for _, a := range of {
				t.Clusters += a.Clusters
			}
			slices.SortFunc(t.Accounts, func(a, b acct) int { return natural.Compare(a.Name, b.Name) })
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b tenant) int {
		return cmp.Or(cmp.Compare(len(b.Accounts), len(a.Accounts)), cmp.Compare(b.Clusters, a.Clusters),
			natural.Compare(a.Name, b.Name), cmp.Compare(a.Pool, b.Pool))
	})
	return found
}

func (s *state) readNetworks(ctx context.Context, from *Sources) error {
	if from.Networks == nil {
		return nil
	}
	parents, err := from.Networks.Parents(ctx)
	if err != nil {
		return err
	}
	for _, p := range parents {
		m, err := newParentMap(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.CIDR, err)
		}
		s.Networks = append(s.Networks, m)
	}
	return nil
}
