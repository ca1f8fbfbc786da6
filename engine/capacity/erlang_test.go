package capacity_test

import (
	"math"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/capacity"
)

const day = 24 * time.Hour

// single is a pool with one cluster for each account and one request for each tenant, as in Erlang's
// formulas. load is the mean number of clusters if there were accounts for all.
func single(load float64, patience time.Duration) *capacity.Pool {
	const lifetime = 5 * day
	asked := make([]string, int(load*1000))
	return &capacity.Pool{
		Demand: capacity.Demand{
			Tenants: asked, Window: 1000 * lifetime, New: 1,
			Lifetimes: capacity.Exponential(lifetime), Cleanings: capacity.Fixed(0),
		},
		Terms:    func(string) account.Terms { return account.Terms{Several: true, Limit: 1} },
		Patience: patience,
	}
}

// erlangB is the share of requests that find no account if none waits.
func erlangB(load float64, accounts int) float64 {
	b := 1.0
	for n := 1; n <= accounts; n++ {
		b = load * b / (float64(n) + load*b)
	}
	return b
}

// erlangC is the share of requests that have to wait if all do.
func erlangC(load float64, accounts int) float64 {
	b, n := erlangB(load, accounts), float64(accounts)
	return n * b / (n - load*(1-b))
}

func options() capacity.Options {
	return capacity.Options{Horizon: 200 * day, WarmUp: 100 * day, Growth: 1, Risk: 0.01, Runs: 256, Seed: 1}
}

func TestEstimateAgreesWithErlang(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		load     float64
		accounts int
		patience time.Duration
		want     float64
	}{
		{"B, much lost", 10, 8, 0, erlangB(10, 8)},
		{"B, some lost", 10, 14, 0, erlangB(10, 14)},
		{"B, little lost", 10, 18, 0, erlangB(10, 18)},
		{"B, one account", 0.5, 1, 0, erlangB(0.5, 1)},
		{"C, much waiting", 10, 13, capacity.Never / 2, erlangC(10, 13)},
		{"C, little waiting", 10, 18, capacity.Never / 2, erlangC(10, 18)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := single(test.load, test.patience).Estimate(t.Context(), options(), test.accounts)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.4f, Erlang says %.4f, 95 %% from %.4f to %.4f, %d decisions", got.Share, test.want, got.Low(), got.High(), got.Decisions)
			if test.want < got.Low() || test.want > got.High() {
				t.Errorf("the share is %.4f, from %.4f to %.4f; Erlang's formula says %.4f", got.Share, got.Low(), got.High(), test.want)
			}
		})
	}
}

// The formula's smallest number of accounts for a risk, or a neighbouring number if that number's share is
// close to the risk.
func TestNeededAgreesWithErlang(t *testing.T) {
	t.Parallel()
	for _, load := range []float64{2, 10} {
		want := 1
		for erlangB(load, want) > 0.01 {
			want++
		}
		f, err := single(load, 0).Plan(t.Context(), options())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("load %v: %d accounts, share %.4f; Erlang says %d", load, f.Needed, f.WithNeeded.Share, want)
		if math.Abs(float64(f.Needed-want)) > 1 {
			t.Errorf("load %v needs %d accounts, Erlang's formula says %d", load, f.Needed, want)
		}
	}
}
