package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// The stream has the request, but its answer does not arrive: the error does not say that the request is not
// published. Of a request that was not sent it does.
func TestPublishWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	silent := config(t, js, events.StreamEvents)
	silent.NoAck = true
	if _, err := js.UpdateStream(within(t), silent); err != nil {
		t.Fatal(err)
	}
	c := client(t, srv.Connect())
	ctx, cancel := context.WithCancel(within(t))
	consumer, err := js.Consumer(ctx, events.StreamEvents, events.ConsumerWorker)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer cancel()
		if _, err := consumer.Next(jetstream.FetchContext(ctx)); err != nil {
			t.Error(err)
		}
	}()
	err = c.Publish(ctx, provision("1"))
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "request 1 may be published on hap.v1.provision.ga-1 or not") {
		t.Errorf("%v", err)
	}
	err = c.Publish(ctx, provision("2"))
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "request 2 is not published on hap.v1.provision.ga-1: ") {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// The stream has the request and refuses the repeat under a random message id, which is longer.
func TestPublishAnewIsRefused(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	c := client(t, srv.Connect())
	if err := c.Publish(within(t), provision("1")); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(within(t), events.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetMsg(within(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	tight := config(t, js, events.StreamEvents)
	tight.MaxMsgSize = int32((&nats.Msg{Header: msg.Header, Data: msg.Data}).Size())
	if _, err := js.UpdateStream(within(t), tight); err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(within(t), provision("1")); err == nil || !strings.Contains(err.Error(), "request 1 may be published") {
		t.Errorf("%v", err)
	}
	if err := c.Publish(within(t), provision("12")); err == nil || !strings.Contains(err.Error(), "request 12 is not published") {
		t.Errorf("a request that the stream refuses: %v", err)
	}
}

// A new Client that awaits a stored reply looks for it at once, though it also begins to follow.
func TestAwaitLooksAtOnce(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	store(t, storage.NewLedger(js, subjects(t), "/hap-worker"), assigned("1"), 0)
	for range 10 {
		c, err := requests.NewClient(srv.Connect(), requests.ClientOptions{Source: "/keb", LookAfter: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(within(t), 5*time.Second)
		if r, err := c.Await(ctx, "rt-1", "1"); err != nil || r.Status != events.StatusAssigned {
			t.Errorf("%+v, %v", r, err)
		}
		cancel()
		c.Close()
	}
}
