package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine/account/accounttest"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// listening is a worker on a real server, with the facts that it reports.
type listening struct {
	t        *testing.T
	server   *ledgertest.NATS
	js       jetstream.JetStream // not the worker's
	subjects events.Subjects
	worker   *Worker
	settled  chan observe.Event
	lost     chan error    // each attempt to open the consumer again
	created  chan struct{} // the worker has recreated streams and consumer
}

// listen starts a worker that answers deprovisions. Changes are made to its options.
func listen(t *testing.T, options []nats.Option, changes ...func(*listening, *Options)) *listening {
	t.Helper()
	l := &listening{t: t, server: ledgertest.Server(t), settled: make(chan observe.Event, 100), lost: make(chan error, 1000), created: make(chan struct{}, 100)}
	l.js = l.server.JetStream()
	l.setup()
	subjects, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	l.subjects = subjects
	js := l.server.JetStream(options...)
	consumer, err := streams.PullConsumer(l.within(), js, events.StreamEvents, events.ConsumerWorker)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Consumer: consumer, Subjects: subjects, Concurrency: 4, AckWait: time.Minute,
		Ledger: storage.NewLedger(js, subjects, "test"), Room: storage.NewWaitingRoom(js, subjects),
		Dead: dead.NewLetters(js, subjects), Counters: accounttest.NewBuilt(), Rebuild: new(rebuilds),
		Observer: observe.Observer{
			OnEvent: func(_ context.Context, i observe.Event) { l.settled <- i },
			OnRetry: func(_ context.Context, i observe.Retry) {
				if i.Type == "consume" {
					l.lost <- i.Err
				}
			},
		},
	}
	for _, change := range changes {
		change(l, &o)
	}
	l.worker = New(o)
	if err := l.worker.Start(l.within()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.worker.Stop)
	return l
}

func (l *listening) within() context.Context {
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	l.t.Cleanup(cancel)
	return ctx
}

// setup creates the missing streams and the consumer.
func (l *listening) setup() {
	l.t.Helper()
	if _, err := storage.Setup(l.within(), l.js, storage.Options{Manage: true}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *listening) deleteConsumer() {
	l.t.Helper()
	if err := l.js.DeleteConsumer(l.within(), events.StreamEvents, events.ConsumerWorker); err != nil {
		l.t.Fatal(err)
	}
}

func (l *listening) deleteStream() {
	l.t.Helper()
	if err := l.js.DeleteStream(l.within(), events.StreamEvents); err != nil {
		l.t.Fatal(err)
	}
}

// publish asks for a deprovision.
func (l *listening) publish(id string) {
	l.t.Helper()
	data, err := events.EncodeEvent(events.Event{
		Type: events.TypeDeprovision, ID: id, Source: "/test", Deprovision: &events.Deprovision{RuntimeID: "rt-" + id},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.js.Publish(l.within(), l.subjects.Deprovision(""), data); err != nil {
		l.t.Fatal(err)
	}
}

// answered waits until the request is answered and acknowledged.
func (l *listening) answered(id string) {
	l.t.Helper()
	if i := l.next(); i.ID != id || i.Outcome != observe.Ack {
		l.t.Fatalf("settled is %+v, want an answer to %s", i, id)
	}
	stored, found, err := storage.NewLedger(l.js, l.subjects, "test").Last(l.within(), l.subjects.Reply("rt-"+id, id))
	if err != nil || !found || stored.Reply.Status != events.StatusReleased {
		l.t.Fatalf("the reply to %s is %+v, %v, %v", id, stored, found, err)
	}
}

// empty waits until the stream has no event. An acknowledgement is not confirmed: if the consumer is deleted
// before the server has processed it, the event is redelivered.
func (l *listening) empty() {
	l.t.Helper()
	for ctx := l.within(); ; {
		stream, err := l.js.Stream(ctx, events.StreamEvents)
		if err != nil {
			l.t.Fatalf("something is left: %v", err)
		}
		if stream.CachedInfo().State.Msgs == 0 {
			return
		}
	}
}

func (l *listening) next() observe.Event {
	l.t.Helper()
	select {
	case i := <-l.settled:
		return i
	case <-l.within().Done():
		l.t.Fatalf("nothing was settled; consuming: %v", l.worker.Consuming())
		return observe.Event{}
	}
}

// misses waits until the worker has noticed that its consumer is gone. A request that arrives after the consumer
// was deleted is refused without that reason; the worker reports this too.
func (l *listening) misses() {
	l.t.Helper()
	for ctx := l.within(); l.worker.Consuming() == nil; {
		select {
		case <-l.lost:
		case <-ctx.Done():
			l.t.Fatal("the worker does not notice that its consumer is gone")
		}
	}
}

// managed lets the worker create missing streams and its consumer.
func managed(l *listening, o *Options) {
	o.Reopen = func(ctx context.Context) (streams.Consumer, error) {
		if _, err := storage.Setup(ctx, l.js, storage.Options{Manage: true}); err != nil {
			return nil, err
		}
		l.created <- struct{}{}
		return o.Consumer, nil
	}
}

// An event may be settled only at the consumer that delivered it: after the stream is recreated, its sequence
// belongs to another event.
func TestEventInWorkWhenItsStreamGoes(t *testing.T) {
	t.Parallel()
	published, proceed := make(chan struct{}, 10), make(chan struct{})
	l := listen(t, nil, func(_ *listening, o *Options) {
		o.Observer.OnStep = func(_ context.Context, s observe.Step) {
			if s == observe.StepPublished {
				published <- struct{}{}
				<-proceed
			}
		}
	})
	l.publish("old")
	<-published
	l.deleteStream()
	l.misses()
	l.setup()
	l.publish("new") // at the same sequence
	<-published
	proceed <- struct{}{}
	proceed <- struct{}{}
	outcomes := map[string]observe.Outcome{}
	for range 2 {
		i := l.next()
		outcomes[i.ID] = i.Outcome
	}
	if outcomes["old"] != observe.Unsettled || outcomes["new"] != observe.Ack {
		t.Errorf("the outcomes are %v; want that the old event is not settled", outcomes)
	}
}

// If the consumer is recreated while an event is handled, the event is redelivered and answered with the
// stored reply.
func TestEventInWorkWhenItsConsumerGoes(t *testing.T) {
	t.Parallel()
	published, proceed := make(chan struct{}, 10), make(chan struct{})
	var first atomic.Bool
	l := listen(t, nil, managed, func(_ *listening, o *Options) {
		o.Observer.OnStep = func(_ context.Context, s observe.Step) {
			if s == observe.StepPublished && first.CompareAndSwap(false, true) {
				published <- struct{}{}
				<-proceed
			}
		}
	})
	l.publish("1")
	<-published
	l.deleteConsumer()
	l.answered("1") // the second delivery finds the answer of the first
	proceed <- struct{}{}
	if i := l.next(); i.ID != "1" || i.Outcome != observe.Unsettled {
		t.Errorf("%+v, want the first delivery unsettled", i)
	}
	l.empty()
}

// Stop waits for events in flight, but not for the consumer to be reopened.
func TestStopWhileTheConsumerIsGone(t *testing.T) {
	t.Parallel()
	published, proceed := make(chan struct{}, 1), make(chan struct{})
	l := listen(t, nil, func(_ *listening, o *Options) {
		o.Observer.OnStep = func(_ context.Context, s observe.Step) {
			if s == observe.StepPublished {
				published <- struct{}{}
				<-proceed
			}
		}
	})
	l.publish("1")
	<-published
	l.deleteStream()
	l.misses()
	stopped := make(chan struct{})
	go func() {
		l.worker.Stop()
		close(stopped)
	}()
	close(proceed)
	if i := l.next(); i.ID != "1" || i.Status != string(events.StatusReleased) {
		t.Errorf("%+v, want the event in work answered", i)
	}
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Fatal("Stop waits for a consumer that is gone")
	}
}

// A worker that has just lost its consumer is not ready. Only after deafFor it is not alive either.
func TestDeafWorkerIsNotAlive(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	l := listen(t, nil, func(_ *listening, o *Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	if err := l.worker.Deaf(); err != nil {
		t.Error(err)
	}
	l.deleteConsumer()
	l.misses()
	if err := l.worker.Deaf(); err != nil {
		t.Errorf("at once: %v", err)
	}
	later.Store(int64(deafFor + time.Second))
	if err := l.worker.Deaf(); err == nil {
		t.Error("a worker without events for five minutes is said to be alive")
	}
}
