package ledgertest

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// ReplySubject returns the subject of the replies to eventstest.Provision(id).
func ReplySubject(t testing.TB, id string) string { return Subjects(t).Reply("rt-"+id, id) }

// Store publishes a reply to a ledger.
func Store(t testing.TB, ledger *storage.Ledger, r events.Reply, expected uint64) uint64 {
	t.Helper()
	sequence, err := ledger.Publish(Within(t), Subjects(t).Reply(r.RuntimeID, r.RequestID), r, expected)
	if err != nil {
		t.Fatal(err)
	}
	return sequence
}

// StreamConfig returns the configuration of a stream.
func StreamConfig(t *testing.T, js jetstream.JetStream, name string) jetstream.StreamConfig {
	t.Helper()
	stream, err := js.Stream(Within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().Config
}
