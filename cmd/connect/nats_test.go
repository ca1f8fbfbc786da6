package connect

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/worker/config"
)

// TestUnreachableNATS connects to an address without a server: the error says so, not only that the time ran
// out.
func TestUnreachableNATS(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	late := time.AfterFunc(20*time.Second, cancel)
	defer late.Stop()
	var told string
	_, err = NATS(ctx, config.NATS{URL: config.URLs{"nats://user:secret@" + address}}, "test", func(text string) {
		told = text
		cancel()
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), address) {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(told, "refused") || strings.Contains(told+err.Error(), "secret") {
		t.Errorf("told %q, error %v", told, err)
	}
}
