package daemon

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// awaited is a log that signals when it contains a text for the first time.
type awaited struct {
	text string
	log  strings.Builder
	has  chan struct{}
}

func (a *awaited) Write(p []byte) (int, error) {
	before := strings.Contains(a.log.String(), a.text)
	n, err := a.log.Write(p)
	if !before && strings.Contains(a.log.String(), a.text) {
		close(a.has)
	}
	return n, err
}

// TestOthersStreamKeepsAWorkerFromBeingReady starts a worker while another application's stream has the
// worker's stream name. /readyz and the log name the owner, and the stream stays unchanged.
func TestOthersStreamKeepsAWorkerFromBeingReady(t *testing.T) {
	t.Parallel()
	server := ledgertest.Server(t)
	js, within := server.JetStream(), ledgertest.Within(t)
	theirs := jetstream.StreamConfig{Name: "HAP_EVENTS", Description: "orders of\nthe shop", Subjects: []string{"orders.>"}}
	if _, err := js.CreateStream(within, theirs); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(within)
	log, listening, ended := &awaited{text: "setting up the streams failed", has: make(chan struct{})}, make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Log: log, OnListening: func(address string) { listening <- address }, Env: []string{
			"HAP_NATS_URL=" + server.URL(), "HAP_TELEMETRY_LISTEN=127.0.0.1:0", "HAP_GARDENER_KUBECONFIG=/nonexistent",
		}})
	}()
	select {
	case <-log.has:
	case err := <-ended:
		t.Fatalf("the worker ended: %v", err)
	}
	response, err := http.Get("http://" + <-listening + "/readyz") //nolint:noctx // of this process
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	ready, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	<-ended
	for _, says := range []string{"stream HAP_EVENTS cannot be the workers'", "orders of the shop", "subjects is [orders.", "nats stream info HAP_EVENTS"} {
		if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(ready), says) {
			t.Errorf("/readyz answers %d without %q:\n%s", response.StatusCode, says, ready)
		}
		if !strings.Contains(log.log.String(), says) {
			t.Errorf("the log has no %q:\n%s", says, log.log.String())
		}
	}
	if stream, err := js.Stream(within, "HAP_EVENTS"); err != nil || stream.CachedInfo().Config.Description != theirs.Description {
		t.Errorf("their stream is %+v, %v", stream, err)
	}
}

// TestStreamsThatAreDeleted: the streams of waiting requests and dead letters are created again. The ledger is not, as
// it has to be restored from a copy, and neither is any stream if the worker must not manage them; both are told.
func TestStreamsThatAreDeleted(t *testing.T) {
	t.Parallel()
	server := ledgertest.Server(t)
	js, ctx := server.JetStream(), ledgertest.Within(t)
	for _, c := range []struct {
		manage  bool
		deleted string
		gone    string // in /readyz afterwards; "" if it is created again
	}{
		{true, events.StreamDead, ""},
		{true, events.StreamWaiting, ""},
		{true, events.StreamReplies, "gone: HAP_REPLIES"},
		{false, events.StreamDead, "gone: HAP_DEAD"},
	} {
		cfg, err := config.Load("", []string{"HAP_NATS_MANAGE=true"})
		if err != nil {
			t.Fatal(err)
		}
		d := &daemon{cfg: cfg, log: slog.New(slog.DiscardHandler)}
		d.parts.js, d.parts.subjects = js, ledgertest.Subjects(t)
		if d.parts.consumer, err = d.setup(ctx); err != nil {
			t.Fatal(err)
		}
		d.parts.up.streams.up.Store(true)
		checks := d.checks()
		ready := checks[slices.IndexFunc(checks, func(check telemetry.Check) bool { return check.Name == "streams" })].Run
		cfg.NATS.Manage = c.manage
		if err := js.DeleteStream(ctx, c.deleted); err != nil {
			t.Fatal(err)
		}
		_ = d.lookForStreams(ctx)
		_, err = js.Stream(ctx, c.deleted)
		if there := err == nil; there != (c.gone == "") {
			t.Errorf("%s with manage %t: it is there: %t (%v)", c.deleted, c.manage, there, err)
		}
		if err := ready(ctx); c.gone == "" && err != nil || c.gone != "" && (err == nil || err.Error() != c.gone) {
			t.Errorf("%s with manage %t: /readyz says %v, want %q", c.deleted, c.manage, err, c.gone)
		}
	}
}
