package containers_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/events"
)

// TestNATSServersLost kills the server that leads the events, then the one that
// leads the replies: with two of three left everything goes on.
func TestNATSServersLost(t *testing.T) {
	s := newScene(t, setting{})
	for _, stream := range []string{events.StreamEvents, events.StreamReplies} {
		node, err := s.Leader(s.ctx, stream)
		s.must(err)
		t.Logf("server %d, which leads %s, is killed", node+1, stream)
		s.must(s.system.NATS.Kill(s.ctx, node))
		s.answers(40)
		s.must(s.system.NATS.Start(s.ctx, node))
		s.must(s.Replicated(s.ctx))
	}
	s.holds()
}
