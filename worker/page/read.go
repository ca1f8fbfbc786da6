package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

const (
	// poolsAtOnce bounds what the page asks of Redis at the same time: the worker
	// uses the same connections.
	poolsAtOnce = 4
	// mostWaiting bounds the requests that are read: each costs a round trip.
	mostWaiting = 50
	// longQueue is how many may wait in a pool before places are not looked up:
	// that reads the whole queue.
	longQueue = 1000
)

// read takes the state. What cannot be read is named in its Faults, and the rest
// is there.
func read(ctx context.Context, from *Sources, settings Settings, now func() time.Time) *state {
	begun := now()
	s := &state{Taken: begun}
	if from == nil {
		s.Faults = []string{"The worker is starting and not connected to everything yet."}
		return s
	}
	s.Read = true
	var mu sync.Mutex
	fault := func(what string, err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			s.Faults = append(s.Faults, what+": "+err.Error())
		}
	}
	var all errgroup.Group
	all.Go(func() error {
		fault("Counts are missing, Redis does not answer", s.readPools(ctx, from, settings))
		return nil
	})
	all.Go(func() error {
		fault("What waits cannot be read", s.readWaiting(ctx, from))
		return nil
	})
	all.Go(func() error {
		fault("Network ranges cannot be read", s.readNetworks(ctx, from))
		return nil
	})
	_ = all.Wait() // every fault is in the state
	slices.Sort(s.Faults)
	s.Took = now().Sub(begun)
	return s
}

// readPools shows the accounts by their labels even where Redis does not answer.
func (s *state) readPools(ctx context.Context, from *Sources, settings Settings) error {
	labelled := map[engine.Pool][]engine.Binding{}
	for b := range from.Accounts.All() {
		labelled[b.Pool()] = append(labelled[b.Pool()], b)
	}
	for of := range labelled {
		s.Pools = append(s.Pools, &pool{Pool: of, counts: map[account.State]int{}})
	}
	slices.SortFunc(s.Pools, func(a, b *pool) int { return cmp.Compare(a.Name(), b.Name()) })
	group := errgroup.Group{}
	group.SetLimit(poolsAtOnce)
	for _, p := range s.Pools {
		group.Go(func() error { return p.read(ctx, from.Records, settings, labelled[p.Pool]) })
	}
	err := group.Wait()
	s.Tenants = severalAccounts(s.Pools)
	return err
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
			a.Limit = settings.Terms(a.Tenant, provider).Limit
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

// recordsOf returns the records of a pool by binding, nil for one that was lost since
// its status was read.
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

// owned are the states in which an account is its tenant's to use.
var owned = []account.State{account.Claiming, account.InUse, account.Draining}

// severalAccounts are the tenants that have more than one account in a pool, the
// largest first.
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
			slices.SortFunc(t.Accounts, func(a, b acct) int { return naturally(a.Name, b.Name) })
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b tenant) int {
		return cmp.Or(cmp.Compare(len(b.Accounts), len(a.Accounts)), cmp.Compare(b.Clusters, a.Clusters),
			naturally(a.Name, b.Name), cmp.Compare(a.Pool, b.Pool))
	})
	return found
}

var errEnough = errors.New("enough is read")

// readWaiting reads the oldest requests, and their places in the queues.
func (s *state) readWaiting(ctx context.Context, from *Sources) error {
	pools := map[string]bool{}
	err := from.Room.Each(ctx, func(r events.WaitingRequest) error {
		if len(s.Waiting) == mostWaiting {
			s.More = true
			return errEnough
		}
		w := waiter{Request: r.Event.ID, Runtime: r.Event.RuntimeID, Pool: r.Pool, Reason: string(r.Reason), Since: r.Since, Deadline: r.Deadline}
		if p := r.Event.Provision; p != nil {
			w.Tenant = p.GlobalAccountID
		}
		pools[r.Pool] = true
		s.Waiting = append(s.Waiting, w)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	s.Queued = true
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		if err := s.placeWaiting(ctx, from.Records, name); err != nil {
			return err
		}
	}
	slices.SortStableFunc(s.Waiting, func(a, b waiter) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(place(a), place(b)))
	})
	return nil
}

// place puts those without a place behind the others.
func place(w waiter) int { return cmp.Or(w.Position, longQueue+1) }

func (s *state) placeWaiting(ctx context.Context, from Records, pool string) error {
	status, err := from.Status(ctx, pool)
	if err != nil || status.Waiting > longQueue {
		return err
	}
	queue, err := from.Queue(ctx, pool)
	if errors.Is(err, account.ErrNotBuilt) {
		return nil
	}
	places := make(map[string]int, len(queue))
	for i, w := range queue {
		places[w.Runtime] = i + 1
	}
	for i := range s.Waiting {
		if s.Waiting[i].Pool == pool {
			s.Waiting[i].Position = places[s.Waiting[i].Runtime]
		}
	}
	return err
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
