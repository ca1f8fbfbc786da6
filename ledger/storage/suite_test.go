package storage_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// What the streams in memory promise, the server keeps too.
func TestStreamsOfServer(t *testing.T) {
	t.Parallel()
	ledgertest.RunStreams(t, func(t *testing.T, o storage.Options, test func(*testing.T, ledgertest.World)) {
		test(t, ledgertest.Server(t).World(o))
	})
}
