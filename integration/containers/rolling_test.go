package containers_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/gardener"
)

// TestRollingRestart restarts the workers one after the other, twice, like a rollout: each exits with code 0,
// and is ready again before the next one stops.
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
