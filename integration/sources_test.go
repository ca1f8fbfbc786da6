package integration_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// sources are connections of the test's own to what a checker reads.
func sources(t *testing.T, s *stack.Stack, js jetstream.JetStream, subjects events.Subjects) checker.Sources {
	t.Helper()
	store, err := counters.Open(connection.Options{URLs: []string{s.Redis.URL()}}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	config, err := s.Kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := gardener.New(config, gardener.Options{
		Namespace: s.Target.Namespace, Resource: gardener.Resource(s.Target.Resource), Labels: s.Target.Labels,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Stop)
	return checker.Sources{Ledger: storage.NewLedger(js, subjects, "/integration"), Counters: store, Gardener: client}
}
