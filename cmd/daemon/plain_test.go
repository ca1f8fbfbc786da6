package daemon

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// TestPlainConnectionsAreToldAtTheStart starts a worker that is stopped at once, and reads what it logged.
func TestPlainConnectionsAreToldAtTheStart(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var log bytes.Buffer
	err := Run(ctx, Options{Log: &log, Env: []string{
		"HAP_NATS_URL=tls://127.0.0.1:1", "HAP_REDIS_URL=redis://redis.invalid:6379", "HAP_TELEMETRY_LISTEN=127.0.0.1:0",
		"HAP_GARDENER_KUBECONFIG=/nonexistent",
	}})
	if n := strings.Count(log.String(), "redis.url does not ask for TLS to redis.invalid:6379"); n != 1 {
		t.Errorf("the worker warned %d times of Redis, want once; it ended with %v and logged\n%s", n, err, log.String())
	}
	if strings.Contains(log.String(), "nats.url does not ask") {
		t.Errorf("the worker warned of NATS with TLS:\n%s", log.String())
	}
}
