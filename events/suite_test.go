package events_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/eventstest"
)

// What the streams in memory promise, the server keeps too.
func TestStreamsOfServer(t *testing.T) {
	t.Parallel()
	eventstest.RunStreams(t, func(t *testing.T, o events.Options, test func(*testing.T, eventstest.World)) {
		test(t, eventstest.Server(t).World(o))
	})
}
