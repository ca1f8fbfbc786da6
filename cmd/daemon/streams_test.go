package daemon

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/eventstest"
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
	server := eventstest.Server(t)
	js, within := server.JetStream(), eventstest.Within(t)
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
