package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// A publisher in production has no more rights than these.
func TestClientRights(t *testing.T) {
	t.Parallel()
	srv := ledgertest.Server(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "worker", Password: "w"},
			{Username: "keb", Password: "k", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{
					"hap.v1.provision.*", "hap.v1.deprovision.*",
					"$JS.API.CONSUMER.CREATE.HAP_REPLIES.>", "$JS.API.CONSUMER.MSG.NEXT.HAP_REPLIES.*", "$JS.API.STREAM.INFO.HAP_REPLIES",
				}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}},
		}
	})
	js := srv.JetStream(nats.UserInfo("worker", "w"))
	if _, err := storage.Setup(within(t), js, storage.Options{Manage: true}); err != nil {
		t.Fatal(err)
	}
	answer(t, js, func(ctx context.Context, ledger *storage.Ledger, e events.Event) error {
		return until(func() error { return once(func(e events.Event) events.Reply { return assigned(e.ID) })(ctx, ledger, e) })
	})
	var mu sync.Mutex
	var violations []error
	nc := srv.Connect(nats.UserInfo("keb", "k"), natsErrors(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		violations = append(violations, err)
	}))
	c := client(t, nc)
	if r, err := c.Provision(within(t), "1", *provision("1").Provision); err != nil || r.Status != events.StatusAssigned {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := c.Await(within(t), "rt-1", "1"); err != nil || r.Status != events.StatusAssigned {
		t.Errorf("awaited: %+v, %v", r, err)
	}
	mu.Lock()
	if len(violations) > 0 {
		t.Errorf("more rights are asked for: %v", violations)
	}
	mu.Unlock()

	// After a restart the library would delete the old consumer, which is denied;
	// the new one works all the same.
	follower, err := requests.NewClient(srv.Connect(nats.UserInfo("keb", "k"), natsErrors(func(error) {})),
		requests.ClientOptions{Source: "/keb", LookAfter: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(follower.Close)
	if _, err := follower.Provision(within(t), "3", *provision("3").Provision); err != nil {
		t.Error(err)
	}
	srv.Restart()
	if r, err := follower.Provision(within(t), "4", *provision("4").Provision); err != nil || r.Status != events.StatusAssigned {
		t.Errorf("after a restart: %+v, %v", r, err)
	}

	// Wait for this connection, too: it reconnects independently.
	if err := until(func() error { return nc.FlushTimeout(time.Second) }); err != nil {
		t.Fatal(err)
	}
	// A request without permission ends with its context, and the error says why.
	ctx, cancel := context.WithTimeout(within(t), 3*time.Second)
	defer cancel()
	_, err = c.Release(ctx, "2", events.Release{Binding: "aws-7"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
		t.Errorf("%v", err)
	}
}

// A client may not delete the consumer that it has followed with, as the library tries to. That is no cause of what
// fails later.
func TestDeniedDeleteIsNoCause(t *testing.T) {
	t.Parallel()
	srv := ledgertest.Server(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "keb", Password: "k", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.CONSUMER.DELETE.>"}},
		}}}
	})
	nc := srv.Connect(nats.UserInfo("keb", "k"), natsErrors(func(error) {}))
	c := client(t, nc) // there is no stream
	if err := nc.Publish("$JS.API.CONSUMER.DELETE.HAP_REPLIES.x", nil); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(time.Minute); err != nil || !errors.Is(nc.LastError(), nats.ErrPermissionViolation) {
		t.Fatal(err, nc.LastError())
	}
	ctx, cancel := context.WithTimeout(within(t), time.Second)
	defer cancel()
	if _, err := c.Provision(ctx, "1", *provision("1").Provision); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("without a stream: %v", err)
	}
}

func natsErrors(f func(error)) nats.Option {
	return nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { f(err) })
}

func TestClientDeadline(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	answered := make(chan struct{})
	answer(t, js, func(ctx context.Context, ledger *storage.Ledger, e events.Event) error {
		_, err := ledger.Publish(ctx, replySubject(t, e.ID), waiting(e.ID), 0)
		return err
	})
	ctx, cancel := context.WithCancelCause(within(t))
	tired := errors.New("tired")
	go func() { <-answered; cancel(tired) }()
	r, err := client(t, srv.Connect()).Provision(ctx, "1", *provision("1").Provision,
		requests.OnWaiting(func(events.Reply) { close(answered) }))
	if !errors.Is(err, tired) || !strings.Contains(err.Error(), "waits (pool-empty)") || r.Status != events.StatusWaiting {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestClientClose(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	for name, end := range map[string]struct {
		stop func(*requests.Client, *nats.Conn)
		want error
	}{
		"client":     {func(c *requests.Client, _ *nats.Conn) { c.Close(); c.Close() }, requests.ErrClientClosed},
		"connection": {func(_ *requests.Client, nc *nats.Conn) { nc.Close() }, nats.ErrConnectionClosed},
	} {
		nc := srv.Connect()
		c := client(t, nc)
		stream, err := js.Stream(within(t), events.StreamEvents)
		if err != nil {
			t.Fatal(err)
		}
		before := stream.CachedInfo().State.LastSeq
		got := make(chan error, 1)
		go func() {
			_, err := c.Provision(within(t), name, *provision(name).Provision)
			got <- err
		}()
		for { // until the event is in the stream
			info, err := stream.Info(within(t))
			if err != nil {
				t.Fatal(err)
			}
			if info.State.LastSeq > before {
				break
			}
		}
		end.stop(c, nc)
		if err := <-got; !errors.Is(err, end.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Await(within(t), "rt", "rq"); !errors.Is(err, end.want) {
			t.Errorf("%s, afterwards: %v", name, err)
		}
	}
}

func TestClientRefusesAtOnce(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	c, ctx := client(t, srv.Connect()), within(t)
	huge := *provision("1").Provision
	huge.Cluster = &events.Cluster{Labels: map[string]string{"a": strings.Repeat("x", 256<<10)}}
	for want, ask := range map[string]func() error{
		"id is missing":     func() error { _, err := c.Provision(ctx, "", *provision("1").Provision); return err },
		`id "a.b" is no id`: func() error { _, err := c.Provision(ctx, "a.b", *provision("1").Provision); return err },
		"data.plan is missing": func() error {
			_, err := c.Provision(ctx, "1", events.Provision{RuntimeID: "r", GlobalAccountID: "g"})
			return err
		},
		"more than the 262144":       func() error { _, err := c.Provision(ctx, "1", huge); return err },
		"data.runtimeID is missing":  func() error { _, err := c.Deprovision(ctx, "1", events.Deprovision{}); return err },
		"data.binding is missing":    func() error { _, err := c.Release(ctx, "1", events.Release{}); return err },
		"data.interface.path is mis": func() error { _, err := c.Resolve(ctx, "1", events.Resolve{RuntimeID: "r"}); return err },
		"needs its data":             func() error { return c.Publish(ctx, events.Event{ID: "1", Type: events.TypeResolve}) },
		"runtimeID is missing":       func() error { _, err := c.Await(ctx, "", "1"); return err },
		`requestID "-" is no id`:     func() error { _, err := c.AwaitRelease(ctx, "b", "-"); return err },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), want) || contract.CodeOf(err) != contract.CodeInvalidEvent {
			t.Errorf("%v instead of %s", err, want)
		}
	}
	stream, err := js.Stream(ctx, events.StreamEvents)
	if err != nil || stream.CachedInfo().State.LastSeq != 0 {
		t.Errorf("something was published: %v", err)
	}
}

// Publish returns once the stream has the event, without a reply.
func TestClientPublish(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	c := client(t, srv.Connect())
	if err := c.Publish(within(t), provision("1")); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(within(t), events.StreamEvents)
	if err != nil || stream.CachedInfo().State.Msgs != 1 {
		t.Fatalf("%+v, %v", stream.CachedInfo().State, err)
	}
	msg, err := stream.GetMsg(within(t), 1)
	if err != nil || msg.Subject != "hap.v1.provision.ga-1" || msg.Header.Get("Nats-Msg-Id") != "provision/1/rt-1" ||
		msg.Header.Get("Content-Type") != "application/cloudevents+json" {
		t.Errorf("%+v, %v", msg, err)
	}
}

// A permanent error is not retried until the context ends.
func TestClientHopeless(t *testing.T) {
	t.Parallel()
	srv := ledgertest.Server(t, func(o *server.Options) { o.MaxPayload = 1024 })
	js := srv.JetStream()
	differs, err := storage.Setup(within(t), js, storage.Options{Manage: true})
	if err != nil || len(differs) != 1 || !strings.Contains(differs[0], "at most 1024 bytes (max_payload)") {
		t.Fatalf("the setup says %q, %v", differs, err)
	}
	large := *provision("1").Provision
	large.Cluster = &events.Cluster{Labels: map[string]string{"a": strings.Repeat("x", 2048)}}
	if _, err := client(t, srv.Connect()).Provision(within(t), "1", large); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("%v", err)
	}
	other := config(t, js, events.StreamEvents)
	if err := js.DeleteStream(within(t), other.Name); err != nil {
		t.Fatal(err)
	}
	other.Name = "OTHER"
	if _, err := js.CreateStream(within(t), other); err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, srv.Connect()).Provision(within(t), "1", *provision("1").Provision); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another stream takes the subject: %v", err)
	}
}

// A request to a full stream is retried until the context ends; the error names the full stream.
func TestClientFullStream(t *testing.T) {
	t.Parallel()
	srv := ledgertest.Server(t)
	if _, err := storage.Setup(within(t), srv.JetStream(), storage.Options{Manage: true, MaxBytes: 100}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(within(t), 3*time.Second)
	defer cancel()
	_, err := client(t, srv.Connect()).Provision(ctx, "1", *provision("1").Provision)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "maximum bytes exceeded") {
		t.Errorf("%v", err)
	}
}

func TestClientForeignReply(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	if _, err := js.Publish(within(t), replySubject(t, "1"), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	c := client(t, srv.Connect())
	// The worker's answer is stored in its place.
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	done := make(chan error, 1)
	go func() {
		r, err := c.Await(within(t), "rt-1", "1")
		if err == nil && r.Status != events.StatusAssigned {
			err = errors.New("the reply is " + string(r.Status))
		}
		done <- err
	}()
	stored, found, err := ledger.Last(within(t), replySubject(t, "1"))
	if err != nil || !found || stored.Foreign == nil {
		t.Fatalf("%+v, %v, %v", stored, found, err)
	}
	store(t, ledger, assigned("1"), stored.Sequence)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A client that uses the id of another tenant's request, or of another kind of request, learns that
// the id is taken, and nothing else.
func TestClientIDOfAnotherRequest(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	final, waits := assigned("1"), waiting("2")
	final.GlobalAccountID, waits.GlobalAccountID = "ga-secret", "ga-secret"
	store(t, ledger, final, 0)
	store(t, ledger, waits, 0)
	c := client(t, srv.Connect())
	for _, id := range []string{"1", "2"} {
		r, err := c.Provision(within(t), id, *provision(id).Provision, requests.OnWaiting(func(r events.Reply) { t.Errorf("told of %+v", r) }))
		if !errors.Is(err, requests.ErrForeignReply) || contract.CodeOf(err) != contract.CodeInvalidEvent || r.RequestID != "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("request %s: %+v, %v", id, r, err)
		}
	}
	r, err := c.Deprovision(within(t), "1", events.Deprovision{RuntimeID: "rt-1"})
	if !errors.Is(err, requests.ErrForeignReply) || r.Binding != nil {
		t.Errorf("a deprovision under the id of a provision: %+v, %v", r, err)
	}
}

// A reply that only a newer version can read is an error, and names itself.
func TestClientNewerReply(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	if _, err := js.Publish(within(t), replySubject(t, "1"), []byte(`{"type":"hap.reply.v2","data":{"status":"granted"}}`)); err != nil {
		t.Fatal(err)
	}
	_, err := client(t, srv.Connect()).Await(within(t), "rt-1", "1")
	if !errors.Is(err, events.ErrUnknownReply) || !strings.Contains(err.Error(), "hap.v1.reply.rt-1.1") {
		t.Errorf("%v", err)
	}
}

func TestNewClientOptions(t *testing.T) {
	t.Parallel()
	nc := ledgertest.Server(t).Connect()
	for want, o := range map[string]requests.ClientOptions{
		"Source":    {},
		"prefix":    {Source: "/s", Prefix: "a..b"},
		"LookAfter": {Source: "/s", LookAfter: -1},
	} {
		if _, err := requests.NewClient(nc, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %s", err, want)
		}
	}
	nc.Close()
	c, err := requests.NewClient(nc, requests.ClientOptions{Source: "/s"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Await(within(t), "rt", "rq"); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("on a closed connection: %v", err)
	}
}

func TestRejected(t *testing.T) {
	t.Parallel()
	err := error(&requests.Rejected{Reply: events.Reply{RequestID: "req-1", Status: events.StatusRejected,
		Error: &events.ReplyError{Code: contract.CodePoolExhausted, Message: "no account", Retryable: true}}})
	if code := contract.CodeOf(err); code != contract.CodePoolExhausted {
		t.Errorf("the code is %s", code)
	}
	var rejected *requests.Rejected
	if !errors.As(err, &rejected) || !rejected.Retryable() {
		t.Errorf("%+v", rejected)
	}
	if want := "request req-1 is rejected: PoolExhausted: no account"; err.Error() != want {
		t.Errorf("%v", err)
	}
}
