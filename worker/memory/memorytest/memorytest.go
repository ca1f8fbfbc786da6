// Package memorytest makes the streams of package memory for tests.
package memorytest

import (
	"testing"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory"
)

// Streams returns a broker with the streams and the consumer of default options, which is closed after the test,
// and the subjects with the default prefix.
func Streams(t testing.TB) (*memory.Broker, events.Subjects) {
	t.Helper()
	subjects, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	broker, err := memory.NewBroker(storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	return broker, subjects
}
