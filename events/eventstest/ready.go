package eventstest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
)

// Within bounds a test that waits for something that does not come.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Ready is a server with streams and consumer.
func Ready(t testing.TB) (*NATS, jetstream.JetStream) {
	t.Helper()
	server := Server(t)
	js := server.JetStream()
	differences, err := events.Setup(Within(t), js, events.Options{Manage: true})
	if err != nil || len(differences) > 0 {
		t.Fatalf("setup: %q, %v", differences, err)
	}
	return server, js
}

// Subjects are those under the usual prefix.
func Subjects(t testing.TB) events.Subjects {
	t.Helper()
	s, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
