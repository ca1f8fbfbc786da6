package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// Within returns a context that ends after a minute, so that a test fails instead of waiting forever.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Ready starts a server and sets up streams and consumer.
func Ready(t testing.TB) (*NATS, jetstream.JetStream) {
	t.Helper()
	server := Server(t)
	js := server.JetStream()
	differences, err := storage.Setup(Within(t), js, storage.Options{Manage: true})
	if err != nil || len(differences) > 0 {
		t.Fatalf("setup: %q, %v", differences, err)
	}
	return server, js
}

// Subjects returns the subjects under the default prefix.
func Subjects(t testing.TB) events.Subjects {
	t.Helper()
	s, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
