package terms_test

import (
	"sync"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/engine/terms"
)

// TestLive calls Set while others read: a caller of Get keeps one consistent Decisions.
func TestLive(t *testing.T) {
	t.Parallel()
	kinds := make([]*terms.Decisions, 2)
	for i := range kinds {
		kinds[i] = terms.New(terms.Options{
			Allowed: []string{terms.AnyTenant}, Limits: map[string]int{rule.DefaultLimit: i},
			Strategy: account.FillFirst, Timeout: time.Duration(i) * time.Minute,
		})
	}
	live := terms.NewLive(kinds[0])
	var all sync.WaitGroup
	all.Go(func() {
		for i := range 1000 {
			live.Set(kinds[i%2])
		}
	})
	for range 1000 {
		d := live.Get()
		if time.Duration(d.Terms("ga", "aws").Limit)*time.Minute != d.WaitingTimeout() {
			t.Fatal("limit and waiting time are of two configurations")
		}
	}
	all.Wait()
}
