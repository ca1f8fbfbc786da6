package containers_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/gardener"
)

// TestRollingRestart stops and starts the workers one after the other, twice, as a
// rollout does: each ends with code 0, and there is always one that serves.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	s := newScene(t, setting{accounts: gardener.SecretBindings})
	for range 2 {
		for _, w := range s.Workers {
			s.must(w.Restart(s.ctx))
			s.answers(10)
		}
	}
	s.holds()
}
