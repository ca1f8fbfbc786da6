package daemon

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/ledger/ledgertest"
)

// TestListenerFails: a worker whose port is taken ends with an error, also while it tries to reach NATS.
func TestListenerFails(t *testing.T) {
	t.Parallel()
	theirs, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	err = Run(ledgertest.Within(t), Options{Log: io.Discard, Env: []string{
		"HAP_NATS_URL=nats://127.0.0.1:1", "HAP_TELEMETRY_LISTEN=" + theirs.Addr().String(), "HAP_GARDENER_KUBECONFIG=/nonexistent",
	}})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("the worker ended with %v", err)
	}
}
