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
