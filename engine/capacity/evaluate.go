package capacity

import (
	"context"
	"math"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// leastRuns is the number of runs before the first look at the share.
	leastRuns = 32
	// clearly is the distance between share and risk, in standard errors, from which on no more runs are
	// needed.
	clearly = 5
)

// evaluation is the outcome of the runs with one number of accounts.
type evaluation struct {
	accounts int
	estimate Estimate
	tallies  []tally
}

// evaluate replays the pool with that number of accounts, or with those that are not free now if these are more.
// Unless all is set, it stops once the share is clearly above or below the risk.
func (p *Pool) evaluate(ctx context.Context, o Options, accounts int, all bool) (evaluation, error) {
	e := evaluation{accounts: max(accounts, p.taken())}
	for len(e.tallies) < o.Runs {
		more := min(leastRuns, o.Runs-len(e.tallies))
		begin := len(e.tallies)
		e.tallies = append(e.tallies, make([]tally, more)...)
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.GOMAXPROCS(0))
		for i := begin; i < begin+more; i++ {
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return context.Cause(ctx)
				}
				var err error
				e.tallies[i], err = p.run(o, e.accounts, uint64(i))
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return e, err
		}
		e.count()
		if !all && math.Abs(e.estimate.Share-o.Risk) > clearly*e.estimate.Error {
			break
		}
	}
	return e, nil
}

// count computes the estimate: the share over the requests of all runs, its error from the differences
// between runs.
func (e *evaluation) count() {
	var requests, waited, decisions int64
	for _, t := range e.tallies {
		requests, waited, decisions = requests+t.requests, waited+t.waited, decisions+t.decisions
	}
	e.estimate = Estimate{Runs: len(e.tallies), Decisions: decisions}
	if requests == 0 {
		return
	}
	share, runs := float64(waited)/float64(requests), float64(len(e.tallies))
	var squares float64
	for _, t := range e.tallies {
		off := float64(t.waited) - share*float64(t.requests)
		squares += off * off
	}
	e.estimate.Share = share
	e.estimate.Error = math.Sqrt(squares/(runs-1)*runs) / float64(requests)
	// Rule of three: if no request waited, the 95 % upper bound of the share is 3/requests.
	e.estimate.Error = max(e.estimate.Error, 3/confidence/float64(requests))
}

// keeps reports whether the upper bound of the interval is within the risk. If no request waited, more accounts do
// not lower the bound: the runs have too few requests for a lower one.
func (e *evaluation) keeps(risk float64) bool {
	return e.estimate.High() <= risk || e.estimate.Share == 0
}

func (e *evaluation) runsOut() Quantiles {
	firsts := make([]time.Duration, len(e.tallies))
	for i, t := range e.tallies {
		firsts[i] = t.first
	}
	slices.Sort(firsts)
	return Quantiles{Early: quantile(firsts, 0.05), Median: quantile(firsts, 0.5), Late: quantile(firsts, 0.95)}
}

func (e *evaluation) use(horizon time.Duration) []Band {
	bands := make([]Band, steps+1)
	at := make([]int, len(e.tallies))
	for i := range bands {
		for j, t := range e.tallies {
			at[j] = t.use[i]
		}
		slices.Sort(at)
		bands[i] = Band{
			At: stepOf(horizon, i), Few: quantile(at, 0.05), Median: quantile(at, 0.5), Many: quantile(at, 0.95),
		}
	}
	return bands
}

// quantile returns the smallest of the sorted values for which at least this share of all values is not
// larger.
func quantile[T any](sorted []T, share float64) T {
	at := int(math.Ceil(share*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}
