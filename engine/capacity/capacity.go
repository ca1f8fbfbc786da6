// Package capacity forecasts how many accounts a pool needs, and when its present accounts run out. It
// replays requests like the past ones through the rules that decide in production (package account), many
// times and in a random order, and counts the requests that find no account when they come.
package capacity

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Pool describes a pool and the requests that it gets.
type Pool struct {
	Accounts []Account
	Clusters []Cluster
	Demand   Demand
	// Terms returns how many accounts a tenant may have, and how many clusters each may have.
	Terms func(tenant string) account.Terms
	// Patience is how long a request waits for an account. At 0 it is refused at once.
	Patience time.Duration
}

// Account is an account of the pool that requests may be assigned to, now or later.
type Account struct {
	Name   string
	Tenant string // "" if it is unclaimed
	// Cleaning is set from the departure of the account's last cluster until the account is free. It is also set for an
	// account that is dirty while clusters run: it gains none, and its cleaning begins when they have gone.
	Cleaning bool
}

// Cluster is a cluster that runs now.
type Cluster struct {
	Tenant  string
	Account string
	Age     time.Duration
}

// Demand describes the requests of a pool.
type Demand struct {
	// Tenants has the tenant of each observed request, in order of time. Window is how long requests were
	// observed: to the end of the history, not to the last request.
	Tenants []string
	Window  time.Duration
	// New is the share of requests, from 0 to 1, that are the first of their tenant.
	New float64
	// Lifetimes are the lifetimes of clusters. Cleanings are the times from the departure of an account's
	// last cluster until the account is free.
	Lifetimes, Cleanings Times
}

// Options configure a forecast.
type Options struct {
	// Horizon is how far the forecast looks ahead.
	Horizon time.Duration
	// Growth is the rate of requests at the end of the horizon, as a multiple of the rate now. The rate grows
	// exponentially.
	Growth float64
	// Risk is the largest share of requests that may find no account, between 0 and 1.
	Risk float64
	// Runs is the largest number of replays for each number of accounts. The result has exactly so many.
	Runs int
	// Seed makes a forecast repeatable.
	Seed uint64
	// WarmUp is how long the replay runs before the horizon begins; its requests are not counted. It is for
	// pools whose present state is unknown. 0 means none.
	WarmUp time.Duration
}

// Check returns an error for the first option that is invalid, nil if there is none.
func (o Options) Check() error {
	switch {
	case o.Horizon <= 0:
		return fmt.Errorf("the horizon is %s, must be positive", o.Horizon)
	case !(o.Growth > 0) || math.IsInf(o.Growth, 0):
		return fmt.Errorf("the growth is %v, must be positive", o.Growth)
	case !(o.Risk > 0 && o.Risk < 1):
		return fmt.Errorf("the risk is %v, must lie between 0 and 1", o.Risk)
	case o.Runs < leastRuns:
		return fmt.Errorf("%d runs say too little, use %d or more", o.Runs, leastRuns)
	}
	return nil
}

// Estimate is the share of requests that find no account. Error is its standard error over the runs, but not below
// 3/1.96 divided by the number of requests: even a share of 0 has an error.
type Estimate struct {
	Share, Error float64
	Runs         int
	Decisions    int64
}

// confidence is the half width of a 95 % interval, in standard errors.
const confidence = 1.96

// Low is the lower bound of the 95 % confidence interval.
func (e Estimate) Low() float64 { return max(0, e.Share-confidence*e.Error) }

// High is the upper bound of the 95 % confidence interval.
func (e Estimate) High() float64 { return min(1, e.Share+confidence*e.Error) }

// Forecast is the result of Pool.Plan.
type Forecast struct {
	// Needed is the smallest number of accounts at which the upper bound of the share of requests without an
	// account does not exceed the risk. If the runs have too few requests for such a bound, it is the smallest
	// number at which none of them is without an account. It is not below the number of accounts that are not free.
	Needed     int
	WithNeeded Estimate
	// Now is the estimate for the accounts that the pool has.
	Now Estimate
	// RunsOut are the 5 %, 50 % and 95 % quantiles, over the runs, of the time until the first request that
	// finds no account. The time is Never in a run without such a request.
	RunsOut Quantiles
	// Decisions is the number of decisions in all replays of the forecast.
	Decisions int64
	// Use is the number of accounts that are not free, at equal steps from now to the horizon, in a pool of
	// Needed accounts.
	Use []Band
}

// Never is a moment beyond the horizon.
const Never = time.Duration(math.MaxInt64)

// Quantiles are the 5 %, 50 % and 95 % quantiles of durations.
type Quantiles struct{ Early, Median, Late time.Duration }

// Band has the 5 %, 50 % and 95 % quantiles of the accounts in use at a moment.
type Band struct {
	At                time.Duration
	Few, Median, Many int
}

// mostAccounts bounds the search: if this many accounts do not suffice, Plan returns ErrNeverEnough.
const mostAccounts = 1 << 20

// ErrNeverEnough is returned if even mostAccounts accounts do not keep the risk: there are too many requests.
var ErrNeverEnough = fmt.Errorf("even %d accounts do not keep the risk", mostAccounts)

// Plan forecasts a pool. The error is Check's, the context's, or ErrNeverEnough.
func (p *Pool) Plan(ctx context.Context, o Options) (Forecast, error) {
	if err := o.Check(); err != nil {
		return Forecast{}, err
	}
	now, err := p.evaluate(ctx, o, len(p.Accounts), true)
	if err != nil {
		return Forecast{}, err
	}
	f := Forecast{Now: now.estimate, RunsOut: now.runsOut()}
	f.Decisions = now.estimate.Decisions
	enough, err := p.search(ctx, o, now, &f.Decisions)
	if err != nil {
		return Forecast{}, err
	}
	f.Needed, f.WithNeeded, f.Use = enough.accounts, enough.estimate, enough.use(o.Horizon)
	return f, nil
}

// Estimate returns the share of future requests that would find no account if the pool had this number of
// accounts. It never assumes fewer than are claimed or being cleaned now. The future requests are drawn at
// random from the demand.
func (p *Pool) Estimate(ctx context.Context, o Options, accounts int) (Estimate, error) {
	if err := o.Check(); err != nil {
		return Estimate{}, err
	}
	e, err := p.evaluate(ctx, o, accounts, true)
	return e.estimate, err
}

// search finds the smallest sufficient number: it doubles the step until a number suffices, then bisects. It
// adds its decisions to *decisions.
func (p *Pool) search(ctx context.Context, o Options, now evaluation, decisions *int64) (evaluation, error) {
	try := func(accounts int, all bool) (evaluation, error) {
		e, err := p.evaluate(ctx, o, accounts, all)
		*decisions += e.estimate.Decisions
		return e, err
	}
	enough := now
	low := p.taken() - 1 // the largest number that is known not to be enough
	for step := max(1, len(p.Accounts)/8); !enough.keeps(o.Risk); step *= 2 {
		low = enough.accounts
		if low >= mostAccounts {
			return enough, ErrNeverEnough
		}
		var err error
		if enough, err = try(min(mostAccounts, low+step), false); err != nil {
			return enough, err
		}
	}
	for enough.accounts-low > 1 {
		tried, err := try(low+(enough.accounts-low)/2, false)
		if err != nil {
			return enough, err
		}
		if tried.keeps(o.Risk) {
			enough = tried
		} else {
			low = tried.accounts
		}
	}
	// evaluate may have stopped early; the result is estimated from all runs.
	return try(enough.accounts, true)
}

// taken is the number of accounts that are not free now.
func (p *Pool) taken() int {
	n := 0
	for _, a := range p.Accounts {
		if a.Tenant != "" || a.Cleaning {
			n++
		}
	}
	return n
}
