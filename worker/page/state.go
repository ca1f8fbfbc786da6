package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/worker/history"
)

// state is a snapshot of the landscape for the page. Once read, it does not change.
type state struct {
	Taken    time.Time
	Took     time.Duration
	Read     bool    // the worker was connected, so that at least the bindings were read; if not, Faults says why
	Pools    []*pool // the most urgent first
	Tenants  []tenant
	Queued   bool // the waiting requests were read
	More     bool // more than mostWaiting requests wait; then not all were read
	Networks []parentMap
	Faults   []fault // what fails, by part
	Circuits []circuit
	Past     history.Progress
}

// totals are the sums over all pools.
type totals struct{ Accounts, Free, Claimed, Draining, Dirty, Clusters, Waiting figure }

// figure is a number as the page shows it.
type figure string

// unread is the figure of a number that could not be read.
const unread figure = "–"

func figureOf(known bool, n int) figure {
	if !known {
		return unread
	}
	return figure(strconv.Itoa(n))
}

// acct is one account.
type acct struct {
	Name     string
	Tenant   string
	Standing account.State
	Clusters int
	Limit    int // of clusters; 0 without a limit or a tenant
	Cordoned bool
	Deleting bool
	Internal bool
	// SameSecretAs names the account of which this one is a duplicate, "" for none.
	SameSecretAs string
}

// newAccount combines labels and record. Either may be nil, as in account.Standing.
func newAccount(name string, b *engine.Binding, rec *account.Record) acct {
	a := acct{Name: name, Standing: account.Standing(b, rec)}
	if b != nil {
		a.Tenant, a.Cordoned, a.Deleting, a.Internal, a.SameSecretAs = b.Tenant, b.Cordoned, b.Deleting, b.Internal, b.SameSecretAs
	}
	if rec != nil {
		a.Tenant, a.Clusters = cmp.Or(rec.Tenant, a.Tenant), rec.Count
	}
	return a
}

// Carries is the number of clusters on the account; it is unread if the account's state is unknown.
func (a acct) Carries() figure { return figureOf(a.Standing != account.Unknown, a.Clusters) }

// Percent is how full the account is in percent, at most 100; it is 0 without a limit.
func (a acct) Percent() int {
	if a.Limit <= 0 {
		return 0
	}
	return min(100, a.Clusters*100/a.Limit)
}

// level groups claimed accounts by how full they are: 1 to 4 are the quarters, 5 is at the limit, 0 is
// without a limit.
func (a acct) level() int {
	switch {
	case a.Limit <= 0:
		return 0
	case a.Clusters >= a.Limit:
		return 5
	default:
		return 1 + a.Clusters*4/a.Limit
	}
}

// pool is one pool with its accounts.
type pool struct {
	engine.Pool
	Status   account.Status
	Unread   bool   // reading it from Redis failed
	Levels   [6]int // claimed accounts by level
	Clusters int
	Tenants  int
	Waiting  queue
	// Unlabelled is set if requests wait for the pool but no account is labelled for it.
	Unlabelled bool

	counts   map[account.State]int
	left     float64 // forecast seconds until no tenant can claim
	forecast bool    // left is known

	accounts []acct
	order    sync.Once
	ordered  []acct // see sorted
}

// Accounts is the number of accounts in Gardener or Redis.
func (p *pool) Accounts() int { return len(p.accounts) }

// Known reports whether all records of the pool were read.
func (p *pool) Known() bool { return !p.Unread && p.Status.Built && p.counts[account.Unknown] == 0 }

// Free is how many accounts can be claimed; it is unread if the pool is not Known.
func (p *pool) Free() figure { return figureOf(p.Known(), p.counts[account.Free]) }

// Carries is the number of clusters on all accounts; it is unread if the pool is not Known.
func (p *pool) Carries() figure { return figureOf(p.Known(), p.Clusters) }

// Empty reports whether a dedicated pool that is Known has no account that can be claimed.
func (p *pool) Empty() bool { return !p.Shared && p.Known() && p.counts[account.Free] == 0 }

// lasts is the forecast time in seconds until no account can be claimed, +Inf without a forecast.
func (p *pool) lasts() float64 {
	if !p.forecast {
		return math.Inf(1)
	}
	return p.left
}

// counted is the number of accounts in a state.
type counted struct {
	Standing account.State
	Count    int
}

// Standings are the states of the pool's accounts with their counts, in the order of account.States.
func (p *pool) Standings() []counted {
	var all []counted
	for _, s := range account.States() {
		if n := p.counts[s]; n > 0 {
			all = append(all, counted{s, n})
		}
	}
	return all
}

// sorted returns the accounts in natural order: aws-2 before aws-10. It sorts a copy once, since other viewers may
// be reading accounts.
func (p *pool) sorted() []acct {
	p.order.Do(func() {
		p.ordered = slices.Clone(p.accounts)
		slices.SortFunc(p.ordered, func(a, b acct) int { return natural.Compare(a.Name, b.Name) })
	})
	return p.ordered
}

// add appends an account and counts it.
func (p *pool) add(a acct) {
	p.accounts = append(p.accounts, a)
	p.counts[a.Standing]++
	p.Clusters += a.Clusters
	if a.Standing == account.InUse {
		p.Levels[a.level()]++
	}
}

// tenant is a tenant with several accounts in one pool.
type tenant struct {
	Name     string
	Pool     string
	Accounts []acct
	Clusters int
}

// Limit is the limit of all its accounts together, 0 if any of them has no limit.
func (t tenant) Limit() int {
	sum := 0
	for _, a := range t.Accounts {
		if a.Limit == 0 {
			return 0
		}
		sum += a.Limit
	}
	return sum
}

// Totals are the sums over all pools.
func (s *state) Totals() totals {
	sums, accounts, clusters := map[account.State]int{}, 0, 0
	for _, p := range s.Pools {
		for state, n := range p.counts {
			sums[state] += n
		}
		accounts, clusters = accounts+p.Accounts(), clusters+p.Clusters
	}
	waiting := queue{Known: s.Queued, Least: s.More}
	for _, p := range s.Pools {
		waiting.Count += p.Waiting.Count
	}
	known := s.Known()
	return totals{
		Accounts: figureOf(s.Read, accounts), Clusters: figureOf(known, clusters),
		Free: figureOf(known, sums[account.Free]), Claimed: figureOf(known, sums[account.Claiming]+sums[account.InUse]),
		Draining: figureOf(known, sums[account.Draining]), Dirty: figureOf(known, sums[account.Dirtying]+sums[account.Dirty]),
		Waiting: waiting.Figure(),
	}
}

// Known reports whether all records of all pools were read.
func (s *state) Known() bool {
	return s.Read && !slices.ContainsFunc(s.Pools, func(p *pool) bool { return !p.Known() })
}

// pool returns the pool with this name, nil if there is none.
func (s *state) pool(name string) *pool {
	for _, p := range s.Pools {
		if p.Name() == name {
			return p
		}
	}
	return nil
}
