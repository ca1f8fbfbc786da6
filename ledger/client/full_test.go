package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// A publisher whose request has no room learns which stream is full, and by which limit.
func TestPublishToFullStream(t *testing.T) {
	t.Parallel()
	srv := ledgertest.Server(t)
	if _, err := storage.Setup(within(t), srv.JetStream(), storage.Options{Manage: true, MaxBytes: 100}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	refused := srv.Connect()
	c := client(t, refused)
	watch, err := srv.Connect().SubscribeSync(events.DefaultPrefix + ".provision.*")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range 2 { // with the second attempt the first has failed
			if _, err := watch.NextMsgWithContext(ctx); err != nil {
				return
			}
		}
		cancel()
	}()
	err = c.Publish(ctx, provision("1"))
	full, is := errors.AsType[*streams.Full](err)
	if !is || full.Stream != events.StreamEvents || full.Limit != "its limit max_bytes" || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
