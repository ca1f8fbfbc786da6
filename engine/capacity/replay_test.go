package capacity

import (
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// TestHopelessWarmUp: if the queue of a pool grows too long before the horizon begins, no request is counted until
// then, and the first one after that finds no account.
func TestHopelessWarmUp(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	pool := &Pool{
		Demand: Demand{Tenants: make([]string, 60), Window: day, New: 1, Lifetimes: Exponential(5 * day), Cleanings: Fixed(0)},
		Terms:  func(string) account.Terms { return account.Terms{Several: true, Limit: 1} }, Patience: Never / 2,
	}
	counted, err := pool.run(Options{Horizon: 5 * day, WarmUp: 100 * day, Growth: 1, Seed: 1}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if counted.requests < 200 || counted.requests > 400 || counted.waited != counted.requests || counted.first > day {
		t.Errorf("of 60 requests a day for five days, %d are counted, %d of them wait, the first after %s", counted.requests, counted.waited, counted.first)
	}
}

// rare is a pool with three requests in 100 days and an account for one cluster each.
func rare() *Pool {
	const day = 24 * time.Hour
	return &Pool{
		Demand: Demand{Tenants: make([]string, 3), Window: 100 * day, New: 1, Lifetimes: Exponential(5 * day), Cleanings: Fixed(0)},
		Terms:  func(string) account.Terms { return account.Terms{Several: true, Limit: 1} },
	}
}

// TestFewRequests: where all runs together have too few requests to show that a risk is kept, so many accounts are
// needed that none of them waits.
func TestFewRequests(t *testing.T) {
	t.Parallel()
	o := Options{Horizon: 20 * 24 * time.Hour, Growth: 1, Risk: 0.01, Runs: 64, Seed: 1}
	f, err := rare().Plan(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if f.Needed < 1 || f.Needed > 5 || f.WithNeeded.Share != 0 || f.WithNeeded.High() <= o.Risk {
		t.Errorf("%d accounts are needed, with them %+v", f.Needed, f.WithNeeded)
	}
	if fewer, err := rare().Estimate(t.Context(), o, f.Needed-1); err != nil || fewer.Share == 0 {
		t.Errorf("one account fewer: %+v, %v", fewer, err)
	}
}

// TestLongHorizon: the accounts in use are noted at equal steps up to the longest horizon.
func TestLongHorizon(t *testing.T) {
	t.Parallel()
	for _, years := range []int{10, 290} {
		o := Options{Horizon: time.Duration(years*365*24) * time.Hour, Growth: 1, Risk: 0.1, Runs: leastRuns, Seed: 1}
		f, err := rare().Plan(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		used := 0
		for i, b := range f.Use {
			if off := b.At - time.Duration(float64(o.Horizon)*float64(i)/steps); off.Abs() > time.Second {
				t.Errorf("%d years: step %d is after %s", years, i, b.At)
			}
			used = max(used, b.Many)
		}
		if used == 0 || used > f.Needed {
			t.Errorf("%d years: %d accounts are in use, %d are needed", years, used, f.Needed)
		}
	}
}

// TestCleaningUnderClusters: the cleaning of an account that is dirty while clusters run begins when the last one has
// gone, and the account gains none until then.
func TestCleaningUnderClusters(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, clusters := range [][]Cluster{
		{{Tenant: "t", Account: "a"}},
		{{Tenant: "t", Account: "a", Age: 5 * day}, {Tenant: "t", Account: "a"}},
		{{Account: "a"}},
	} {
		pool := &Pool{
			Accounts: []Account{{Name: "a", Cleaning: true}}, Clusters: clusters,
			Demand: Demand{Lifetimes: Fixed(10 * day), Cleanings: Fixed(day)},
			Terms:  func(string) account.Terms { return account.Terms{} },
		}
		o := Options{Horizon: steps * day, Growth: 1, Risk: 0.1, Runs: leastRuns, Seed: 1}
		f, err := pool.Plan(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range f.Use {
			if inUse := i < 11; (b.Median == 1) != inUse {
				t.Errorf("%d clusters: on day %d, %d accounts are in use", len(clusters), i, b.Median)
			}
		}
		pool.Demand.Tenants, pool.Demand.Window = []string{"t"}, 2*day
		if found, err := pool.run(Options{Horizon: 10 * day, Growth: 1, Seed: 1}, 1, 1); err != nil || found.requests == 0 || found.waited != found.requests {
			t.Errorf("%d clusters: of %d requests, %d wait, %v", len(clusters), found.requests, found.waited, err)
		}
	}
}
