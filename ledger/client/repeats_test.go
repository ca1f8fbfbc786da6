package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// A message that used the event's message id first does not keep the event out of the stream: the id
// is predictable, but the id of the second attempt is not. If the reply is in the ledger, there is no
// second attempt.
func TestClientIDUsedFirst(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	c, ctx := client(t, srv.Connect()), within(t)
	for _, id := range []string{"provision/1/rt-1", "provision/2/rt-2"} {
		if _, err := js.Publish(ctx, subjects(t).Release("aws-1"), []byte("{}"), jetstream.WithMsgID(id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Publish(ctx, provision("1")); err != nil {
		t.Fatal(err)
	}
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	answered := make(chan error, 1)
	go func() {
		_, err := c.Provision(ctx, "2", *provision("2").Provision)
		answered <- err
	}()
	stream, err := js.Stream(ctx, events.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	ids := func() (ids []string) {
		t.Helper()
		info, err := stream.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for n := range info.State.LastSeq {
			msg, err := stream.GetMsg(ctx, n+1)
			if err != nil {
				t.Fatal(err)
			}
			if msg.Subject == "hap.v1.provision.ga-1" {
				ids = append(ids, msg.Header.Get("Nats-Msg-Id"))
			}
		}
		return ids
	}
	err = until(func() error {
		found := ids()
		if len(found) != 2 {
			return fmt.Errorf("%q", found)
		}
		for n, id := range found {
			if begins := fmt.Sprintf("provision/%d/rt-%[1]d/", n+1); !strings.HasPrefix(id, begins) || len(id) < len(begins)+26 {
				t.Errorf("message %d has the id %s", n, id)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	store(t, ledger, waiting("2"), 0)
	asks, tired := context.WithCancel(ctx)
	r, err := client(t, srv.Connect()).Provision(asks, "2", *provision("2").Provision, requests.OnWaiting(func(events.Reply) { tired() }))
	if r.Status != events.StatusWaiting {
		t.Errorf("who asks again while the request waits: %+v, %v", r, err)
	}
	last, _, err := ledger.Last(ctx, replySubject(t, "2"))
	if err != nil {
		t.Fatal(err)
	}
	store(t, ledger, assigned("2"), last.Sequence)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if _, err := c.Provision(ctx, "2", *provision("2").Provision); err != nil {
		t.Error(err)
	}
	if found := ids(); len(found) != 2 {
		t.Errorf("a request that has a reply is published again: %q", found)
	}
}

// TestOneIDForTwo asks for two runtimes, and releases two accounts, under one id within the duplicate
// window: the stream has all four, and each is answered.
func TestOneIDForTwo(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	answer(t, js, once(func(e events.Event) events.Reply {
		if e.Release != nil {
			return events.Reply{Status: events.StatusReturned}
		}
		return events.Reply{Status: events.StatusAssigned}
	}))
	ctx := within(t)
	for n, e := range []events.Event{
		{Type: events.TypeProvision, Provision: &events.Provision{RuntimeID: "rt-u1", GlobalAccountID: "ga-1", Plan: "aws"}},
		{Type: events.TypeProvision, Provision: &events.Provision{RuntimeID: "rt-u2", GlobalAccountID: "ga-1", Plan: "aws"}},
		{Type: events.TypeRelease, Release: &events.Release{Binding: "aws-1"}},
		{Type: events.TypeRelease, Release: &events.Release{Binding: "aws.1"}},
	} {
		e.ID, e.Source = "op-two", "/keb"
		msg, err := events.Publication(subjects(t), e)
		if err != nil {
			t.Fatal(err)
		}
		if ack, err := js.PublishMsg(ctx, msg); err != nil || ack.Duplicate {
			t.Errorf("request %d: %+v, %v", n, ack, err)
		}
	}
	c := client(t, srv.Connect())
	for _, runtime := range []string{"rt-u1", "rt-u2"} {
		if r, err := c.Await(ctx, runtime, "op-two"); err != nil || r.Status != events.StatusAssigned {
			t.Errorf("%s: %+v, %v", runtime, r, err)
		}
	}
	for _, binding := range []string{"aws-1", "aws.1"} {
		if r, err := c.AwaitRelease(ctx, binding, "op-two"); err != nil || r.Status != events.StatusReturned {
			t.Errorf("%s: %+v, %v", binding, r, err)
		}
	}
}
