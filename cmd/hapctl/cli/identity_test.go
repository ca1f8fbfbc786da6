package cli

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/counters/landscapes"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// TestShadowsPlaces: a shadow's Redis and ledger are not taken for those of the workers; only its comparisons are read.
func TestShadowsPlaces(t *testing.T) {
	t.Parallel()
	shadow := engine.Landscape{Namespace: "garden-kyma", Resource: "credentialsbindings", Cluster: "u-1", Shadow: true}
	client := counterstest.Mini(t)
	if _, err := landscapes.Claim(t.Context(), counters.New(client, "hap-shadow"), shadow); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Redis.URL, cfg.Redis.Prefix = config.URLs{"redis://" + client.Options().Addr}, "hap-shadow"
	shell := func() *Shell { return New(strings.NewReader(""), io.Discard, io.Discard) }
	if _, _, err := ReachRedis(t.Context(), shell(), cfg); ExitCode(err) != ExitInvalid || !strings.Contains(err.Error(), "of a shadow") {
		t.Errorf("its Redis: %v", err)
	}
	ledger := jetstream.StreamConfig{Name: "HAP_SHADOW_REPLIES", Metadata: map[string]string{storage.MetadataLandscape: shadow.Text()}}
	if err := shell().LedgerIs(ledger, cfg); ExitCode(err) != ExitInvalid {
		t.Errorf("its ledger: %v", err)
	}
	if err := shell().ShadowsLedgerIs(ledger, cfg); err != nil {
		t.Errorf("its comparisons: %v", err)
	}
}

// TestBesideLeavesTime: a Redis that does not answer leaves the command half of its time, if it needs no Redis.
func TestBesideLeavesTime(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	cfg, err := config.Load("", []string{"HAP_REDIS_URL=redis://" + silent.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var said strings.Builder
	err = New(strings.NewReader(""), io.Discard, &said).Beside(ctx, cfg)
	if err != nil || ctx.Err() != nil || !strings.Contains(said.String(), "was not checked") {
		t.Errorf("%v, %v, and it says %q", err, ctx.Err(), &said)
	}
}
