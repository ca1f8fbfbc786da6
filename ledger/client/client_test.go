package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// client returns a Client that looks often, so that tests are fast.
func client(t testing.TB, nc *nats.Conn) *requests.Client {
	t.Helper()
	c, err := requests.NewClient(nc, requests.ClientOptions{Source: "/keb", LookAfter: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// answer decodes every event, passes it to reply and acknowledges it, as a worker would.
func answer(t testing.TB, js jetstream.JetStream, reply func(context.Context, *storage.Ledger, events.Event) error) {
	t.Helper()
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	consumer, err := js.Consumer(within(t), events.StreamEvents, events.ConsumerWorker)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the last PubAck may come after the test's end
	var handling sync.Mutex                                               // Closed does not wait for a call that has begun
	ended := false
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		handling.Lock()
		defer handling.Unlock()
		if ended {
			return
		}
		e, err := events.Decode(msg.Subject(), msg.Headers(), msg.Data())
		if err == nil {
			err = reply(ctx, ledger, e)
		}
		if err == nil {
			err = msg.Ack()
		}
		if err != nil {
			t.Errorf("worker: %v", err)
		}
	}, jetstream.PullExpiry(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		consuming.Stop()
		<-consuming.Closed()
		handling.Lock()
		defer handling.Unlock()
		ended = true
		cancel()
	})
}

// once stores the one final reply, unless a final one is there.
func once(final func(events.Event) events.Reply) func(context.Context, *storage.Ledger, events.Event) error {
	return func(ctx context.Context, ledger *storage.Ledger, e events.Event) error {
		s, _ := events.NewSubjects("")
		r := final(e)
		r.RequestID, r.RuntimeID = e.ID, e.RuntimeID
		_, err := ledger.Publish(ctx, e.ReplySubject(s), r, 0)
		if errors.Is(err, storage.ErrWrongLastSequence) {
			return nil
		}
		return err
	}
}

func TestClientEveryRequest(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	answer(t, js, once(func(e events.Event) events.Reply {
		if e.Source != "/keb" {
			t.Errorf("source %s", e.Source)
		}
		return events.Reply{Status: map[events.Type]events.Status{
			events.TypeProvision: events.StatusAssigned, events.TypeDeprovision: events.StatusReleased,
			events.TypeRelease: events.StatusReturned, events.TypeResolve: events.StatusResolved,
		}[e.Type]}
	}))
	c, ctx := client(t, srv.Connect()), within(t)
	check := func(want events.Status, r events.Reply, err error) {
		t.Helper()
		if err != nil || r.Status != want {
			t.Errorf("%s: %+v, %v", want, r, err)
		}
	}
	r, err := c.Provision(ctx, "p-1", *provision("1").Provision)
	check(events.StatusAssigned, r, err)
	r, err = c.Deprovision(ctx, "d-1", events.Deprovision{RuntimeID: "rt-1"})
	check(events.StatusReleased, r, err)
	r, err = c.Release(ctx, "r-1", events.Release{Binding: "aws.7"})
	check(events.StatusReturned, r, err)
	r, err = c.Resolve(ctx, "s-1", events.Resolve{RuntimeID: "rt-1", Interface: events.Interface{Path: "x"}})
	check(events.StatusResolved, r, err)

	again := client(t, srv.Connect()) // and by a client that knows the ids only
	r, err = again.Await(ctx, "rt-1", "p-1")
	check(events.StatusAssigned, r, err)
	r, err = again.AwaitRelease(ctx, "aws.7", "r-1")
	check(events.StatusReturned, r, err)
}

func TestClientRejected(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	answer(t, js, once(func(e events.Event) events.Reply { return rejected(e.ID, contract.CodeNoMatchingRule) }))
	r, err := client(t, srv.Connect()).Provision(within(t), "1", *provision("1").Provision)
	var rejection *requests.Rejected
	if !errors.As(err, &rejection) || contract.CodeOf(err) != contract.CodeNoMatchingRule || rejection.Retryable() || r.Status != events.StatusRejected {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestClientWaiting(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	told := make(chan events.Reply, 10)
	answer(t, js, func(ctx context.Context, ledger *storage.Ledger, e events.Event) error {
		first, err := ledger.Publish(ctx, replySubject(t, e.ID), waiting(e.ID), 0)
		if err != nil {
			return err
		}
		if r := <-told; r.Waiting.Position != 1 {
			t.Errorf("told %+v", r)
		}
		sealed, err := ledger.Seal(ctx, e, first)
		if err != nil {
			return err
		}
		_, err = ledger.Publish(ctx, replySubject(t, e.ID), assigned(e.ID), sealed)
		return err
	})
	r, err := client(t, srv.Connect()).Provision(within(t), "1", *provision("1").Provision,
		requests.OnWaiting(func(r events.Reply) { told <- r }))
	if err != nil || r.Status != events.StatusAssigned || len(told) != 0 {
		t.Errorf("%+v, told %d times more, %v", r, len(told), err)
	}
}

// The losing worker published its reply, but the stream did not store it.
func TestClientDoesNotSeeTheLoser(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	looker := srv.Connect()
	plain, err := looker.SubscribeSync("hap.v1.reply.>")
	if err == nil {
		err = looker.Flush() // or it may begin after the attempt of the other connection
	}
	if err != nil {
		t.Fatal(err)
	}
	answer(t, js, func(ctx context.Context, ledger *storage.Ledger, e events.Event) error {
		sealed, err := ledger.Seal(ctx, e, 0)
		if err != nil {
			return err
		}
		if _, err := ledger.Publish(ctx, replySubject(t, e.ID), rejected(e.ID, contract.CodeInternal), 0); !errors.Is(err, storage.ErrWrongLastSequence) {
			t.Errorf("the loser wins: %v", err)
		}
		for range 2 { // until a plain subscription has seen the seal and the losing attempt
			if _, err := plain.NextMsgWithContext(ctx); err != nil {
				return err
			}
		}
		_, err = ledger.Publish(ctx, replySubject(t, e.ID), assigned(e.ID), sealed)
		return err
	})
	r, err := client(t, srv.Connect()).Provision(within(t), "1", *provision("1").Provision)
	if err != nil || r.Status != events.StatusAssigned {
		t.Errorf("%+v, %v", r, err)
	}
}

// A client stops while its request is in progress. The reply that is stored meanwhile is found under
// the same id, by Ask and by Await.
func TestClientPicksUpLater(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	published, proceed := make(chan struct{}), make(chan struct{})
	stored := make(chan struct{})
	answer(t, js, func(ctx context.Context, ledger *storage.Ledger, e events.Event) error {
		close(published)
		<-proceed
		defer close(stored)
		_, err := ledger.Publish(ctx, replySubject(t, e.ID), assigned(e.ID), 0)
		return err
	})
	nc := srv.Connect()
	gone := client(t, nc)
	ctx, cancel := context.WithCancel(within(t))
	go func() { <-published; cancel() }()
	if _, err := gone.Provision(ctx, "1", *provision("1").Provision); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "request 1") {
		t.Fatalf("%v", err)
	}
	gone.Close()
	nc.Close()
	close(proceed)
	<-stored

	back := client(t, srv.Connect())
	if r, err := back.Provision(within(t), "1", *provision("1").Provision); err != nil || r.Status != events.StatusAssigned {
		t.Errorf("asked again: %+v, %v", r, err)
	}
	if r, err := back.Await(within(t), "rt-1", "1"); err != nil || r.Status != events.StatusAssigned {
		t.Errorf("awaited: %+v, %v", r, err)
	}
}

// The duplicate window is over, and the worker does not reply again: the client finds the stored
// reply.
func TestClientLooks(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	store(t, storage.NewLedger(js, subjects(t), "/hap-worker"), assigned("1"), 0)
	r, err := client(t, srv.Connect()).Provision(within(t), "1", *provision("1").Provision)
	if err != nil || r.Status != events.StatusAssigned {
		t.Errorf("%+v, %v", r, err)
	}
}

// Two clients ask for many runtimes, and both for the same one: everybody gets the
// reply to what it asked.
func TestClientsTogether(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	answer(t, js, once(func(e events.Event) events.Reply { return assigned(e.ID) }))
	var all errgroup.Group
	for i := range 2 {
		c := client(t, srv.Connect())
		for j := range 50 {
			id := fmt.Sprint("c", i, "-", j)
			if j == 0 {
				id = "same"
			}
			all.Go(func() error {
				r, err := c.Provision(within(t), id, *provision(id).Provision)
				if err == nil && (r.RequestID != id || r.Status != events.StatusAssigned) {
					err = fmt.Errorf("request %s has %+v", id, r)
				}
				return err
			})
		}
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}

// The server restarts under waiting requests. Nothing was stored before, so the recreated consumer
// must begin where the first one did.
func TestClientSurvivesRestart(t *testing.T) {
	t.Parallel()
	srv, _ := setup(t)
	js, err := jetstream.New(srv.Connect(), jetstream.WithDefaultTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	nc := srv.Connect()
	slow, err := requests.NewClient(nc, requests.ClientOptions{Source: "/keb", LookAfter: time.Hour}) // by its consumer only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slow.Close)
	began := make(chan struct{}, 2)
	proceed := make(chan struct{})
	answer(t, js, func(ctx context.Context, ledger *storage.Ledger, e events.Event) error {
		if e.ID == "before" {
			began <- struct{}{}
			<-proceed
		}
		return until(func() error { return once(func(e events.Event) events.Reply { return assigned(e.ID) })(ctx, ledger, e) })
	})
	var requests errgroup.Group
	ask := func(id string) func() error {
		return func() error {
			r, err := slow.Provision(within(t), id, *provision(id).Provision)
			if err == nil && r.Status != events.StatusAssigned {
				err = fmt.Errorf("%+v", r)
			}
			return err
		}
	}
	requests.Go(ask("before"))
	<-began
	srv.Stop()
	requests.Go(ask("between")) // is published when the server is back
	srv.Start()
	close(proceed)
	requests.Go(ask("after"))
	if err := requests.Wait(); err != nil {
		t.Error(err)
	}
}

// until repeats what a reconnect may interrupt.
func until(try func() error) error {
	var err error
	for range 100 {
		if err = try(); err == nil {
			return nil
		}
	}
	return err
}

// A client may be there before the streams are.
func TestClientBeforeStreams(t *testing.T) {
	t.Parallel()
	srv := ledgertest.Server(t)
	c := client(t, srv.Connect())
	got := make(chan error, 1)
	go func() {
		_, err := c.Provision(within(t), "1", *provision("1").Provision)
		got <- err
	}()
	js := srv.JetStream()
	if _, err := storage.Setup(within(t), js, storage.Options{Manage: true}); err != nil {
		t.Fatal(err)
	}
	answer(t, js, once(func(e events.Event) events.Reply { return assigned(e.ID) }))
	if err := <-got; err != nil {
		t.Error(err)
	}
}
