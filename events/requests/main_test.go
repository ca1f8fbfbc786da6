package requests_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within bounds a test that waits for something that does not come.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// setup is a server with streams and consumer.
func setup(t testing.TB) (*eventstest.NATS, jetstream.JetStream) {
	t.Helper()
	server := eventstest.Server(t)
	js := server.JetStream()
	differences, err := events.Setup(within(t), js, events.Options{Manage: true})
	if err != nil || len(differences) > 0 {
		t.Fatalf("setup: %q, %v", differences, err)
	}
	return server, js
}

func subjects(t testing.TB) events.Subjects {
	t.Helper()
	s, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
