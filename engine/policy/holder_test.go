package policy_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/hap-worker/hap-worker/engine/policy"
)

// edition returns a policy that has the number n in its rule, its implementation and its injection.
func edition(n int) []byte {
	return fmt.Appendf(nil, `apiVersion: 0.1.0
rules:
  cap.interface.db%s:
    oneOf: [{implementationConstraints: {path: cap.implementation.p%d}, injectTypeInstances: [{id: "%d", typeRef: {path: cap.type.auth}}]}]
`, []string{"", ":0.1.0"}[n%2], n, n)
}

// TestEachResolutionUsesOneVersion edits the policy while requests run: a valid edit applies as a whole, an
// invalid one leaves the last valid policy in force.
func TestEachResolutionUsesOneVersion(t *testing.T) {
	t.Parallel()
	var h policy.Holder
	if _, err := h.Snapshot().Resolve(wanted); reasonOf(err) != policy.NoPolicy {
		t.Fatalf("before the first policy: %v", err)
	}
	h.TakeCatalog(crowd(t, 10))
	h.TakeTypeInstances(available)
	if err := h.TakePolicy(edition(0)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for seen := 0; ; seen++ {
				select {
				case <-done:
					if seen > 0 {
						return
					}
				default:
				}
				d, err := h.Snapshot().Resolve(wanted)
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				_, err = fmt.Sscanf(d.Picked.Path, "cap.implementation.p%d", &n)
				key := "cap.interface.db" + []string{"", ":0.1.0"}[n%2]
				if err != nil || d.RuleKey != key || len(d.Inject) != 1 || d.Inject[0].ID != fmt.Sprint(n) {
					t.Errorf("mixed: %+v", d)
					return
				}
			}
		})
	}
	refused := 0
	for i := range 1000 {
		if i%3 == 0 {
			if err := h.TakePolicy([]byte("apiVersion: 0.1.0\nrules: {cap.*: {}}")); err != nil {
				refused++
			}
			continue
		}
		if err := h.TakePolicy(edition(i % 10)); err != nil {
			t.Error(err)
		}
	}
	close(done)
	readers.Wait()
	if refused != 334 {
		t.Errorf("%d edits were refused", refused)
	}
	if d, err := h.Snapshot().Resolve(wanted); err != nil || d.Picked.Path != "cap.implementation.p8" {
		t.Errorf("the last good one is not in force: %+v, %v", d.Picked, err)
	}
	h.DropPolicy()
	if _, err := h.Snapshot().Resolve(wanted); reasonOf(err) != policy.NoPolicy {
		t.Errorf("after it was dropped: %v", err)
	}
}

func reasonOf(err error) policy.Reason {
	refusal, is := errors.AsType[*policy.Refusal](err)
	if !is {
		return ""
	}
	return refusal.Reason
}
