// Package capacity says how many accounts a pool needs, and how long those that it has
// are enough. It replays requests like those of the past through the rules that decide in
// production (package account), many times and in another order each time, and counts the
// requests that find no account.
package capacity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Pool is a pool with what is known of its requests.
type Pool struct {
	Accounts []Account
	Clusters []Cluster
	Demand   Demand
	// Terms returns how many accounts a tenant may have, and how full.
	Terms func(tenant string) account.Terms
	// Patience is how long a request waits for an account; 0 is refused at once.
	Patience time.Duration
}

// Account is an account of the pool that requests may get, now or later.
type Account struct {
	Name   string
	Tenant string // "" where no tenant has it
	// Cleaning is an account that its last cluster has left and that is not free yet.
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
	// Tenants of the requests that were seen, in order, over a time of Window.
	Tenants []string
	Window  time.Duration
	// New is the share of requests, from 0 to 1, whose tenant had made none before.
	New float64
	// Lifetimes are those of clusters, Cleanings the times from an account's last cluster
	// to its return.
	Lifetimes, Cleanings Times
}

// Options are what a forecast is asked for.
type Options struct {
	// Horizon is how far it looks ahead.
	Horizon time.Duration
	// Growth is the rate of requests at the horizon's end as a multiple of the rate now. It
	// grows by the same factor each day.
	Growth float64
	// Risk is the largest share of requests that may find no account, between 0 and 1.
	Risk float64
	// Runs is the largest number of replays for each number of accounts.
	Runs int
	// Seed makes a forecast repeatable.
	Seed uint64
	// WarmUp is replayed before the horizon begins, and counts for nothing: for pools whose
	// present is not known.
	WarmUp time.Duration
}

// Check returns what is wrong with options.
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

// Estimate is a share of requests that find no account, with the standard error of its mean
// over the runs.
type Estimate struct {
	Share, Error float64
	Runs         int
	Decisions    int64
}

// confidence is how many standard errors an interval of 95 % reaches to either side.
const confidence = 1.96

// Low is the lower bound of the share, with a confidence of 95 %.
func (e Estimate) Low() float64 { return max(0, e.Share-confidence*e.Error) }

// High is the upper bound of the share, with a confidence of 95 %.
func (e Estimate) High() float64 { return min(1, e.Share+confidence*e.Error) }

// Forecast says what a pool needs.
type Forecast struct {
	// Needed is the smallest number of accounts that keeps the share of requests without an
	// account at or below the risk, by the upper bound of its interval.
	Needed     int
	WithNeeded Estimate
	// Now is the estimate for the accounts that the pool has.
	Now Estimate
	// RunsOut are moments from now on at which the first request finds no account: in 5 %,
	// half and 95 % of the runs it comes no later. Beyond the horizon it is Never.
	RunsOut Quantiles
	// Decisions is how many were made for the forecast.
	Decisions int64
	// Use are the accounts that are not free, at equal steps from now to the horizon, if the
	// pool has as many as it needs.
	Use []Band
}

// Never is a moment beyond the horizon.
const Never = time.Duration(math.MaxInt64)

// Quantiles are those of moments: 5 %, half, 95 %.
type Quantiles struct{ Early, Median, Late time.Duration }

// Band has the accounts in use at a moment: in 5 %, half and 95 % of the runs no more.
type Band struct {
	At                time.Duration
	Few, Median, Many int
}

// mostAccounts bounds the search: more accounts than that do not help a request that finds
// none.
const mostAccounts = 1 << 20

// ErrNeverEnough says that no number of accounts keeps the risk: the requests of tenants that
// must not have another account wait whatever there is.
var ErrNeverEnough = errors.New("no number of accounts keeps the risk")

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

// Estimate replays the pool with that number of accounts. It has at least those in use.
func (p *Pool) Estimate(ctx context.Context, o Options, accounts int) (Estimate, error) {
	if err := o.Check(); err != nil {
		return Estimate{}, err
	}
	e, err := p.evaluate(ctx, o, accounts, true)
	return e.estimate, err
}

// search finds the smallest number that is enough: it doubles the step up to one that is, and
// halves it from there. It adds the decisions that it makes.
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
	// Whether a number is enough was decided early where that was clear.
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
