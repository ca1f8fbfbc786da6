package page

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// state is what the page shows of the landscape at one moment. It does not change
// once it was read.
type state struct {
	Taken    time.Time
	Took     time.Duration
	Pools    []*pool // by name
	Tenants  []tenant
	Waiting  []waiter
	More     bool // more wait than Waiting has
	Networks []parentMap
	Faults   []string // what could not be read, and why
}

// totals are the sums over all pools.
type totals struct{ Accounts, Free, Claimed, Draining, Dirty, Clusters, Waiting int }

// kind is what an account is good for now.
type kind string

const (
	kindFree     kind = "free"     // may be claimed
	kindShared   kind = "shared"   // for all tenants
	kindClaimed  kind = "claimed"  // a tenant's
	kindDraining kind = "draining" // empty, its tenant may come back
	kindDirty    kind = "dirty"    // to be cleaned
	kindHeld     kind = "held"     // unclaimed, but internal or cordoned
	kindMissing  kind = "missing"  // Redis knows it, Gardener does not
)

func kinds() []kind {
	return []kind{kindFree, kindShared, kindClaimed, kindDraining, kindDirty, kindHeld, kindMissing}
}

// acct is one account.
type acct struct {
	Name     string
	Tenant   string
	Kind     kind
	Clusters int
	Limit    int // 0 is none
	Claiming bool
	Cordoned bool
	Internal bool
}

// Percent is how full the account is, 0 without a limit.
func (a acct) Percent() int {
	if a.Limit <= 0 {
		return 0
	}
	return min(100, a.Clusters*100/a.Limit)
}

// level sorts claimed accounts by how full they are: 1 to 4 are the quarters, 5 is
// at the limit, 0 has none.
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

// newAccount puts together what labels and record say. What the labels rule out
// comes first, then the state in Redis, then the tenant's label, as in metrics.
func newAccount(b engine.Binding, rec account.Record) acct {
	a := acct{
		Name: b.Name, Tenant: cmp.Or(rec.Tenant, b.Tenant), Clusters: rec.Count,
		Cordoned: b.Cordoned, Internal: b.Internal, Claiming: rec.State == account.Claiming,
	}
	switch {
	case b.Dirty, rec.State == account.Dirtying:
		a.Kind = kindDirty
	case b.Shared:
		a.Kind = kindShared
	case rec.State == account.Draining:
		a.Kind = kindDraining
	case rec.State == account.InUse, rec.State == account.Claiming:
		a.Kind = kindClaimed
	case b.Internal:
		a.Kind = kindHeld
	case b.Tenant != "":
		a.Kind = kindClaimed
	case b.Cordoned:
		a.Kind = kindHeld
	default:
		a.Kind = kindFree
	}
	return a
}

// pool is one pool with its accounts.
type pool struct {
	engine.Pool
	Status   account.Status
	Unread   bool // Redis did not answer
	Kinds    map[kind]int
	Levels   [6]int // of the claimed ones
	Clusters int
	Tenants  int

	accounts []acct
	order    sync.Once
}

// Accounts is how many Gardener and Redis know.
func (p *pool) Accounts() int { return len(p.accounts) }

// Count is how many accounts are of a kind, by its name.
func (p *pool) Count(k kind) int { return p.Kinds[k] }

// Empty says that nobody can claim anything here.
func (p *pool) Empty() bool { return !p.Shared && p.Kinds[kindFree] == 0 }

// sorted are the accounts in the order in which people count: aws-2 before aws-10.
func (p *pool) sorted() []acct {
	p.order.Do(func() {
		slices.SortFunc(p.accounts, func(a, b acct) int { return naturally(a.Name, b.Name) })
	})
	return p.accounts
}

// add counts an account in.
func (p *pool) add(a acct) {
	p.accounts = append(p.accounts, a)
	p.Kinds[a.Kind]++
	p.Clusters += a.Clusters
	if a.Kind == kindClaimed {
		p.Levels[a.level()]++
	}
}

// naturally compares names with the numbers in them as numbers; of those that are
// alike so, as texts.
func naturally(first, second string) int {
	a, b := first, second
	for a != "" && b != "" {
		if digit(a[0]) && digit(b[0]) {
			x, restA := number(a)
			y, restB := number(b)
			if order := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); order != 0 {
				return order
			}
			a, b = restA, restB
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(first, second))
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// number cuts the number that begins s, without zeros before it.
func number(s string) (digits, rest string) {
	end := 0
	for end < len(s) && digit(s[end]) {
		end++
	}
	return strings.TrimLeft(s[:end], "0"), s[end:]
}

// tenant is a tenant with several accounts in one pool.
type tenant struct {
	Name     string
	Pool     string
	Accounts []acct
	Clusters int
}

// Limit is what all its accounts may carry together, 0 where one has no limit.
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

// waiter is a request that waits.
type waiter struct {
	Position int // in its pool, 0 where Redis does not have it in the queue
	Runtime  string
	Request  string
	Tenant   string
	Pool     string
	Reason   string
	Since    time.Time
	Deadline time.Time
}

// Totals are the sums over all pools.
func (s *state) Totals() totals {
	var t totals
	for _, p := range s.Pools {
		t.Accounts += p.Accounts()
		t.Free += p.Kinds[kindFree]
		t.Claimed += p.Kinds[kindClaimed]
		t.Draining += p.Kinds[kindDraining]
		t.Dirty += p.Kinds[kindDirty]
		t.Clusters += p.Clusters
	}
	t.Waiting = len(s.Waiting)
	if s.More {
		t.Waiting = max(t.Waiting, s.recorded())
	}
	return t
}

// recorded is how many wait by what Redis says.
func (s *state) recorded() int {
	n := 0
	for _, p := range s.Pools {
		n += p.Status.Waiting
	}
	return n
}

// pool finds a pool by its name; nil for an unknown one.
func (s *state) pool(name string) *pool {
	for _, p := range s.Pools {
		if p.Name() == name {
			return p
		}
	}
	return nil
}
