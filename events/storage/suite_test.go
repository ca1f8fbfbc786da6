package storage_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/events/eventstest"
	"github.com/hap-worker/hap-worker/events/storage"
)

// What the streams in memory promise, the server keeps too.
func TestStreamsOfServer(t *testing.T) {
	t.Parallel()
	eventstest.RunStreams(t, func(t *testing.T, o storage.Options, test func(*testing.T, eventstest.World)) {
		test(t, eventstest.Server(t).World(o))
	})
}
