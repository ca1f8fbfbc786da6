package source_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/source"
)

// tap is a source on a real server.
type tap struct {
	*source.Source
	t       *testing.T
	js      jetstream.JetStream // not the source's
	subject string
	taken   chan source.Message
	lost    chan error    // each attempt to open the consumer again
	created chan struct{} // the source has recreated stream and consumer
	stop    func()        // returns once Next has returned false
}

// open opens a source on a connection with these options. Changes are made to its options.
func open(t *testing.T, options []nats.Option, changes ...func(*tap, *source.Options)) (*tap, *nats.Conn) {
	t.Helper()
	subjects, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	server := ledgertest.Server(t)
	s := &tap{
		t: t, js: server.JetStream(), subject: subjects.Deprovision(""),
		taken: make(chan source.Message, 100), lost: make(chan error, 1000), created: make(chan struct{}, 100),
	}
	s.setup()
	js := server.JetStream(options...)
	consumer, err := streams.PullConsumer(s.within(), js, events.StreamEvents, events.ConsumerWorker)
	if err != nil {
		t.Fatal(err)
	}
	o := source.Options{
		Consumer: consumer, Prefetch: 4, Subjects: subjects.Events(), LookEvery: 100 * time.Millisecond, Now: time.Now,
		Observer: &observe.Observer{OnRetry: func(_ context.Context, r observe.Retry) {
			if r.After > 0 { // else the iterator goes on by itself
				s.lost <- r.Err
			}
		}},
	}
	for _, change := range changes {
		change(s, &o)
	}
	s.Source = source.New(o)
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	watched, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		s.Watch(ctx)
	}()
	go func() {
		defer close(ended)
		for {
			msg, ok := s.Next(ctx)
			if !ok {
				return
			}
			s.taken <- msg
		}
	}()
	s.stop = func() {
		cancel()
		s.Drain()
		<-ended
		<-watched
	}
	t.Cleanup(s.stop)
	return s, js.Conn()
}

func (s *tap) within() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	s.t.Cleanup(cancel)
	return ctx
}

// setup creates the missing streams and the consumer.
func (s *tap) setup() {
	s.t.Helper()
	if _, err := storage.Setup(s.within(), s.js, storage.Options{Manage: true}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *tap) deleteConsumer() {
	s.t.Helper()
	if err := s.js.DeleteConsumer(s.within(), events.StreamEvents, events.ConsumerWorker); err != nil {
		s.t.Fatal(err)
	}
}

func (s *tap) deleteStream() {
	s.t.Helper()
	if err := s.js.DeleteStream(s.within(), events.StreamEvents); err != nil {
		s.t.Fatal(err)
	}
}

func (s *tap) publish(text string) {
	s.t.Helper()
	if _, err := s.js.Publish(s.within(), s.subject, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// takes waits for the next message, and fails the test if it is another one.
func (s *tap) takes(text string) source.Message {
	s.t.Helper()
	select {
	case msg := <-s.taken:
		if string(msg.Data()) != text {
			s.t.Fatalf("taken is %s, want %s", msg.Data(), text)
		}
		return msg
	case <-s.within().Done():
		_, why := s.Lost()
		s.t.Fatalf("nothing is taken; lost: %v", why)
		return source.Message{}
	}
}

// settles takes a message and acknowledges it.
func (s *tap) settles(text string) {
	s.t.Helper()
	if err := s.takes(text).DoubleAck(s.within()); err != nil {
		s.t.Fatal(err)
	}
}

// misses waits until the source has noticed that its consumer is gone.
func (s *tap) misses() {
	s.t.Helper()
	select {
	case <-s.lost:
	case <-s.within().Done():
		s.t.Fatal("the source does not notice that its consumer is gone")
	}
}

// managed lets the source create missing streams and its consumer.
func managed(s *tap, o *source.Options) {
	o.Reopen = func(ctx context.Context) (streams.Consumer, error) {
		if _, err := storage.Setup(ctx, s.js, storage.Options{Manage: true}); err != nil {
			return nil, err
		}
		s.created <- struct{}{}
		return o.Consumer, nil
	}
}

// patient makes LookEvery so long that Watch notices nothing during a test.
func patient(_ *tap, o *source.Options) { o.LookEvery = time.Hour }

func TestConsumerIsOpenedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose    func(*tap)
		recover func(*tap)
		change  func(*tap, *source.Options)
	}{
		"deleted, and created by the source":        {(*tap).deleteConsumer, nil, managed},
		"deleted, and created by others":            {(*tap).deleteConsumer, (*tap).setup, nil},
		"recreated at once":                         {func(s *tap) { s.deleteConsumer(); s.setup() }, nil, nil},
		"stream deleted, and created by others":     {(*tap).deleteStream, (*tap).setup, nil},
		"stream deleted, and created by the source": {(*tap).deleteStream, nil, managed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := []func(*tap, *source.Options){patient}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			s, _ := open(t, nil, changes...)
			s.publish("0")
			s.settles("0")
			for _, text := range []string{"1", "2"} { // it may go more than once
				for len(s.lost) > 0 { // attempts that failed while it was being created
					<-s.lost
				}
				c.lose(s)
				s.misses()
				if c.recover != nil {
					s.misses() // the attempt that fails
					if _, why := s.Lost(); why == nil || !strings.Contains(why.Error(), "not found") {
						t.Errorf("lost: %v, want that nothing is found", why)
					}
					c.recover(s)
				}
				if c.change != nil {
					<-s.created
				}
				s.publish(text)
				s.settles(text)
				if _, why := s.Lost(); why != nil {
					t.Errorf("after the consumer is back: %v", why)
				}
			}
		})
	}
}

// A server reports the deletion of a consumer only to connected clients.
func TestConsumerThatGoesWhileTheSourceIsAway(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	dial := dialer(func(network, address string) (net.Conn, error) {
		if away.Load() {
			return nil, errors.New("away")
		}
		return net.Dial(network, address)
	})
	s, nc := open(t, []nats.Option{nats.SetCustomDialer(dial)})
	s.publish("1")
	s.settles("1")
	left, back := nc.StatusChanged(nats.RECONNECTING), nc.StatusChanged(nats.CONNECTED)
	away.Store(true)
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	<-left
	s.deleteStream()
	s.setup() // with sequences that begin anew
	away.Store(false)
	<-back
	s.misses()
	s.publish("2")
	s.settles("2")
}

type dialer func(network, address string) (net.Conn, error)

func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// A message may be settled only at the consumer that delivered it: after the stream is recreated, its sequence
// belongs to another message.
func TestMessageOutlivesItsConsumer(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil, patient)
	s.publish("old")
	old := s.takes("old")
	s.deleteStream()
	s.misses()
	s.setup()
	s.publish("new") // at the same sequence
	fresh := s.takes("new")
	for name, settle := range map[string]func() error{
		"Ack": old.Ack, "Nak": old.Nak, "Term": old.Term, "InProgress": old.InProgress,
		"DoubleAck":      func() error { return old.DoubleAck(s.within()) },
		"NakWithDelay":   func() error { return old.NakWithDelay(time.Second) },
		"TermWithReason": func() error { return old.TermWithReason("no") },
	} {
		if err := settle(); !errors.Is(err, source.ErrGone) {
			t.Errorf("%s of the old message: %v, want that its consumer is gone", name, err)
		}
	}
	if err := fresh.DoubleAck(s.within()); err != nil {
		t.Errorf("the new message: %v", err)
	}
}

// Next does not wait for a lost consumer after ctx has ended. Lost returns the time of the loss.
func TestEndWhileTheConsumerIsGone(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s, _ := open(t, nil, patient, func(_ *tap, o *source.Options) { o.Now = func() time.Time { return now } })
	s.publish("1")
	s.settles("1") // a pull request is pending, so the server reports the deletion
	s.deleteConsumer()
	s.misses()
	if since, why := s.Lost(); why == nil || !since.Equal(now) {
		t.Errorf("lost since %s: %v", since, why)
	}
	ended := make(chan struct{})
	go func() {
		s.stop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("Next waits for a consumer that is gone")
	}
}

// heldUntil waits until the error of Held contains a text; "" waits until there is no error.
func (s *tap) heldUntil(says string) {
	s.t.Helper()
	ctx := s.within()
	for every := time.NewTicker(10 * time.Millisecond); ; {
		_, why := s.Held()
		if why == nil && says == "" || why != nil && says != "" && strings.Contains(why.Error(), says) {
			every.Stop()
			return
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			s.t.Fatalf("held: %v, want %q", why, says)
		}
	}
}

// TestConsumerIsPaused: only a look notices that the consumer is paused.
func TestConsumerIsPaused(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil)
	if _, err := s.js.PauseConsumer(s.within(), events.StreamEvents, events.ConsumerWorker, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.heldUntil("nats consumer resume HAP_EVENTS hap-worker")
	if _, lost := s.Lost(); lost != nil {
		t.Errorf("a paused consumer counts as lost: %v", lost) // a restart would not help
	}
	if _, err := s.js.ResumeConsumer(s.within(), events.StreamEvents, events.ConsumerWorker); err != nil {
		t.Fatal(err)
	}
	s.heldUntil("")
}

// TestConsumerIsChanged: AckWait follows the server, and Held reports an unusable configuration.
func TestConsumerIsChanged(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil)
	if got := s.AckWait(); got != 30*time.Second {
		t.Errorf("the ack wait is %s", got)
	}
	changed := storage.Options{AckWait: 3 * time.Second}.Consumer()
	changed.MaxDeliver = 2
	if _, err := s.js.UpdateConsumer(s.within(), events.StreamEvents, changed); err != nil {
		t.Fatal(err)
	}
	s.heldUntil("--max-deliver=-1")
	if got := s.AckWait(); got != 3*time.Second {
		t.Errorf("the ack wait is %s", got)
	}
	changed.MaxDeliver = -1
	if _, err := s.js.UpdateConsumer(s.within(), events.StreamEvents, changed); err != nil {
		t.Fatal(err)
	}
	s.heldUntil("")
}

// TestConsumerIsNarrowed: a narrower filter leaves events in the stream, and a batch limit below Prefetch
// stops delivery. Only a look notices either.
func TestConsumerIsNarrowed(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil)
	for says, change := range map[string]func(*jetstream.ConsumerConfig){
		"it leaves out":      func(c *jetstream.ConsumerConfig) { c.FilterSubject = "hap.v1.release.*" },
		"--max-pull-batch=4": func(c *jetstream.ConsumerConfig) { c.MaxRequestBatch = 3 },
	} {
		changed := storage.Options{}.Consumer()
		change(&changed)
		if _, err := s.js.UpdateConsumer(s.within(), events.StreamEvents, changed); err != nil {
			t.Fatal(err)
		}
		s.heldUntil(says)
	}
	if _, err := s.js.UpdateConsumer(s.within(), events.StreamEvents, storage.Options{}.Consumer()); err != nil {
		t.Fatal(err)
	}
	s.heldUntil("")
}

// silent is a consumer whose Info fails.
type silent struct{ streams.Consumer }

func (silent) Info(context.Context) (*jetstream.ConsumerInfo, error) { return nil, nats.ErrTimeout }

// TestServerIsSilent: Held reports an error only after several looks without an answer.
func TestServerIsSilent(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil, func(_ *tap, o *source.Options) { o.Consumer = silent{o.Consumer} })
	s.heldUntil("NATS does not answer questions about the consumer")
}
