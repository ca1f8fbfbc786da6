package page

import (
	"sync"
	"testing"
)

// TestViewersShareAState: a pool that is shown in order stays as others read it.
func TestViewersShareAState(t *testing.T) {
	t.Parallel()
	p := &pool{accounts: []acct{{Name: "aws-10"}, {Name: "aws-2"}}}
	var viewers sync.WaitGroup
	for range 2 {
		viewers.Go(func() {
			if first := p.sorted()[0].Name; first != "aws-2" {
				t.Errorf("%s is the first in order", first)
			}
		})
		viewers.Go(func() {
			if first := p.accounts[0].Name; first != "aws-10" {
				t.Errorf("%s is the first as read", first)
			}
		})
	}
	viewers.Wait()
	if p.accounts[0].Name != "aws-10" {
		t.Error("the accounts that others read were sorted")
	}
}
