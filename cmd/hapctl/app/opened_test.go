package app

import (
	"io"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// TestOneConnection: a command that needs NATS for several things connects once.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	server := ledgertest.Server(t)
	js, subjects := server.JetStream(), ledgertest.Subjects(t)
	if _, err := storage.Setup(t.Context(), js, storage.Options{Manage: true}); err != nil {
		t.Fatal(err)
	}
	data := `{"specversion":"1.0","type":"hap.provision.v1","id":"req-1","source":"/x","data":{"runtimeID":"rt-1","globalAccountID":"ga-1","plan":"aws"}}`
	letter := dead.Event{Type: events.TypeProvision, Subject: subjects.Provision("ga-1"), Sequence: 1, Data: []byte(data)}
	if err := dead.NewLetters(js, subjects).Put(t.Context(), letter, engine.CodeNoMatchingRule, "why"); err != nil {
		t.Fatal(err)
	}
	before := server.Connections()
	var said strings.Builder // no answer is typed
	code := Run(t.Context(), []string{"dead", "replay", "1", "--yes", "--timeout", "300ms", "--nats-url", server.URL()}, strings.NewReader(""), io.Discard, &said)
	if connections := server.Connections() - before; code != cli.ExitTimeout || connections != 1 {
		t.Errorf("%d connections, exit code %d:\n%s", connections, code, &said)
	}
}
