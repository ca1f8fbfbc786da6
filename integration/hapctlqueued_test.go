package integration_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
)

// TestHapctlQueued runs the story of requests that no worker has finished, after the only worker
// has stopped: take takes up the next event, as one does, and does not settle it.
func TestHapctlQueued(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, whyConfig, accounts("aws", 1))
	if err := l.work(daemon.Options{}).end(); err != nil { // it has built Redis
		t.Fatal(err)
	}
	runHapctl(t, l.stack, "testdata/hapctl-queued", map[string]func(*testscript.TestScript, bool, []string){
		"take": func(ts *testscript.TestScript, _ bool, _ []string) {
			consumer, err := l.js.Consumer(l.ctx, events.StreamEvents, events.ConsumerWorker)
			ts.Check(err)
			_, err = consumer.Next(jetstream.FetchContext(l.ctx))
			ts.Check(err)
		},
	})
}
