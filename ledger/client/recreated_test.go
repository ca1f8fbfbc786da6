package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// asked is a request that is known to wait, and its reply to come.
func asked(t *testing.T, c *requests.Client, id string, entered chan struct{}) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		r, err := c.Provision(within(t), id, *provision(id).Provision, requests.OnWaiting(func(events.Reply) {
			select {
			case entered <- struct{}{}:
			default:
			}
		}))
		if err == nil && r.Status != events.StatusAssigned {
			err = errors.New("the reply is " + string(r.Status))
		}
		done <- err
	}()
	return done
}

// recreate deletes the stream of the replies and creates an empty one. The server removes the files of a deleted stream
// in the background. If those of an earlier deletion are still there, it cannot move the files aside, and the new stream
// begins with the messages of the deleted one: then recreate tries again.
func recreate(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	for {
		if err := js.DeleteStream(within(t), events.StreamReplies); err != nil {
			t.Fatal(err)
		}
		if _, err := storage.Setup(within(t), js, storage.Options{Manage: true}); err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(within(t), events.StreamReplies)
		if err != nil {
			t.Fatal(err)
		}
		if stream.CachedInfo().State.LastSeq == 0 {
			return
		}
	}
}

// The stream of the replies is deleted and recreated, twice. Its sequences begin at 1 again, below the
// sequence of the waiting reply that the client has seen.
func TestClientFollowsARecreatedStream(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	for n := range uint64(5) { // others' replies, so that ours is not the first
		store(t, ledger, rejected("other"+string('a'+rune(n)), "PoolExhausted"), 0)
	}
	c := client(t, srv.Connect())
	for _, id := range []string{"1", "2"} {
		entered := make(chan struct{}, 1)
		done := asked(t, c, id, entered)
		store(t, ledger, waiting(id), 0)
		<-entered
		recreate(t, js)
		store(t, ledger, assigned(id), 0)
		if err := <-done; err != nil {
			t.Errorf("request %s: %v", id, err)
		}
	}
	// By its consumer alone, too: nothing was stored before it followed again.
	if r, err := c.Await(within(t), "rt-2", "2"); err != nil || r.Status != events.StatusAssigned {
		t.Errorf("%+v, %v", r, err)
	}
}

// A client that looks only after an hour gets its reply from the consumer of all
// replies, after that was deleted twice.
func TestClientFollowsAfterItsConsumerIsDeleted(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	c, err := requests.NewClient(srv.Connect(), requests.ClientOptions{Source: "/keb", LookAfter: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	for _, id := range []string{"1", "2"} {
		entered := make(chan struct{}, 1)
		done := asked(t, c, id, entered)
		at := waitsFor(t, js, ledger, id)
		<-entered
		stream, err := js.Stream(within(t), events.StreamReplies)
		if err != nil {
			t.Fatal(err)
		}
		for name := range stream.ConsumerNames(within(t)).Name() {
			if err := stream.DeleteConsumer(within(t), name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
				t.Fatal(err)
			}
		}
		store(t, ledger, assigned(id), at)
		if err := <-done; err != nil {
			t.Errorf("request %s: %v", id, err)
		}
	}
}

// A client that was disconnected while the stream was recreated gets no notice: the library follows
// the new stream at the sequence of the old one, which is far ahead.
func TestClientWasAwayWhenTheStreamWasRecreated(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	for n := range 1000 { // more than the new stream will have
		store(t, ledger, rejected(fmt.Sprintf("other%d", n), "PoolExhausted"), 0)
	}
	away := &dialer{}
	c, err := requests.NewClient(srv.Connect(nats.SetCustomDialer(away)), requests.ClientOptions{Source: "/keb", LookAfter: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	entered := make(chan struct{}, 1)
	done := asked(t, c, "1", entered)
	waitsFor(t, js, ledger, "1")
	<-entered
	away.cut()
	if err := js.DeleteStream(within(t), events.StreamReplies); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Setup(within(t), js, storage.Options{Manage: true}); err != nil {
		t.Fatal(err)
	}
	away.mend()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for at, told := uint64(0), false; !told; {
		at = store(t, ledger, waiting("1"), at)
		select {
		case <-entered:
			told = true
			store(t, ledger, assigned("1"), at)
		case err := <-done:
			t.Fatalf("no reply of the new stream arrives: %v", err)
		case <-tick.C:
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// dialer dials, unless its connections are cut.
type dialer struct {
	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, errors.New("away")
	}
	conn, err := net.Dial(network, address)
	if err == nil {
		d.conns = append(d.conns, conn)
	}
	return conn, err
}

func (d *dialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = true
	for _, conn := range d.conns {
		_ = conn.Close()
	}
}

func (d *dialer) mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = false
}

// waitsFor stores the waiting reply once the request is published, so after the
// client has begun to follow.
func waitsFor(t *testing.T, js jetstream.JetStream, ledger *storage.Ledger, id string) uint64 {
	t.Helper()
	consumer, err := js.Consumer(within(t), events.StreamEvents, events.ConsumerWorker)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := consumer.Next(jetstream.FetchContext(within(t)))
	if err != nil || !strings.Contains(string(msg.Data()), "rt-"+id) || msg.Ack() != nil {
		t.Fatalf("%v, %v", msg, err)
	}
	return store(t, ledger, waiting(id), 0)
}

// Close does not wait for a stream that is gone.
func TestClientClosesWithoutItsStream(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	c := client(t, srv.Connect())
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	entered := make(chan struct{}, 1)
	done := asked(t, c, "1", entered)
	store(t, ledger, waiting("1"), 0)
	<-entered
	if err := js.DeleteStream(within(t), events.StreamReplies); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(within(t), 8*time.Second)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		c.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		t.Fatal("Close waits for a stream that is gone")
	}
	if err := <-done; !errors.Is(err, requests.ErrClientClosed) {
		t.Errorf("%v", err)
	}
}
