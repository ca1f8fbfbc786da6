package ledgertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// RunStreams runs the tests that every World passes. run calls test with a World of the
// options o that no other test uses; it may do so within a bubble of testing/synctest.
func RunStreams(t *testing.T, run func(t *testing.T, o storage.Options, test func(*testing.T, World))) {
	t.Helper()
	tests := []struct {
		name    string
		options storage.Options
		test    func(*bench)
	}{
		{"FirstReplyStands", storage.Options{}, testFirstReplyStands},
		{"RepliesInOrder", storage.Options{}, testRepliesInOrder},
		{"RepliesForgotten", storage.Options{}, testRepliesForgotten},
		{"ForeignReplies", storage.Options{}, testForeignReplies},
		{"FoundReplies", storage.Options{}, testFoundReplies},
		{"FoundElsewhere", storage.Options{}, testFoundElsewhere},
		{"Copies", storage.Options{}, testCopies},
		{"Landscape", storage.Options{}, testLandscape},
		{"Refusals", storage.Options{MaxBytes: 4 << 10}, testRefusals},
		{"WaitingInOrder", storage.Options{}, testWaitingInOrder},
		{"WaitingFollowed", storage.Options{}, testWaitingFollowed},
		{"ManyWait", storage.Options{}, testManyWait},
		{"LargestWaits", storage.Options{}, testLargestWaits},
		{"ForeignWaiting", storage.Options{}, testForeignWaiting},
		{"DeadLetters", storage.Options{}, testDeadLetters},
		{"DeadLetterCut", storage.Options{}, testDeadLetterCut},
		{"DeadLetterHeaders", storage.Options{}, testDeadLetterHeaders},
		{"CallerGone", storage.Options{}, testCallerGone},
		{"EventsOnce", storage.Options{}, testEventsOnce},
		{"EventsUntilAcknowledged", storage.Options{}, testEventsUntilAcknowledged},
		{"Pretences", storage.Options{}, testPretences},
		{"EventsOfShadow", storage.Options{Shadow: true, Prefix: "other"}, testEventsUntilAcknowledged},
		{"AckWait", storage.Options{AckWait: shortWait}, testAckWait},
		{"InProgress", storage.Options{AckWait: shortWait}, testInProgress},
		{"Nak", storage.Options{}, testNak},
		{"NakWithDelay", storage.Options{}, testNakWithDelay},
		{"Term", storage.Options{}, testTerm},
		{"LateAck", storage.Options{AckWait: shortWait}, testLateAck},
		{"MaxAckPending", storage.Options{MaxAckPending: 2}, testMaxAckPending},
		{"SharedByWorkers", storage.Options{}, testSharedByWorkers},
		{"IteratorStopped", storage.Options{}, testIteratorStopped},
		{"ConsumerDeleted", storage.Options{}, testConsumerDeleted},
		{"StreamDeleted", storage.Options{}, testStreamDeleted},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run(t, c.options, func(t *testing.T, w World) { c.test(newBench(t, c.options, w)) })
		})
	}
}

// bench has what one test works with.
type bench struct {
	World
	t        *testing.T
	subjects events.Subjects
	ledger   *storage.Ledger
	room     *storage.WaitingRoom
	dead     *dead.Letters
	foreign  []*events.Foreign // reported to OnForeign, in that order
}

func newBench(t *testing.T, o storage.Options, w World) *bench {
	t.Helper()
	subjects, err := events.NewSubjects(o.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	if o.Shadow {
		subjects = subjects.Shadow()
	}
	b := &bench{
		World: w, t: t, subjects: subjects, ledger: storage.NewLedgerOn(w, subjects, "/test"),
		room: storage.NewWaitingRoomOn(w, subjects), dead: dead.NewLettersOn(w, subjects),
	}
	tell := func(f *events.Foreign) { b.foreign = append(b.foreign, f) }
	b.ledger.OnForeign(tell)
	b.room.OnForeign(tell)
	return b
}

// ctx returns a context for one call.
func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) wants(err, want error) {
	b.t.Helper()
	if !errors.Is(err, want) {
		b.t.Fatalf("the error is %v, want %v", err, want)
	}
}

// raw stores data on a subject as it is, and returns the sequence of the message.
func (b *bench) raw(subject, data string) uint64 {
	b.t.Helper()
	ack, err := b.Publish(b.ctx(), &nats.Msg{Subject: subject, Data: []byte(data)})
	b.must(err)
	return ack.Sequence
}

// reply stores a reply after the expected sequence, and returns the reply's sequence.
func (b *bench) reply(r events.Reply, expected uint64) uint64 {
	b.t.Helper()
	sequence, err := b.ledger.Publish(b.ctx(), b.subjects.Reply(r.RuntimeID, r.RequestID), r, expected)
	b.must(err)
	return sequence
}

func reply(runtime, request string, s events.Status) events.Reply {
	r := events.Reply{RequestID: request, RuntimeID: runtime, Status: s, GlobalAccountID: "ga"}
	if s == events.StatusRejected {
		r.Error = &events.ReplyError{Code: engine.CodePoolExhausted, Message: "too late"}
	}
	return r
}

func provision(runtime, request string) events.Event {
	return events.Event{
		Type: events.TypeProvision, ID: request, Source: "/test", RuntimeID: runtime,
		Provision: &events.Provision{RuntimeID: runtime, GlobalAccountID: "ga", Plan: "aws"},
	}
}

// event publishes a provision, and returns the stream's acknowledgement.
func (b *bench) event(request string) *jetstream.PubAck {
	b.t.Helper()
	msg, err := events.Publication(b.subjects, provision("rt-"+request, request))
	b.must(err)
	ack, err := b.Publish(b.ctx(), msg)
	b.must(err)
	return ack
}

// unsettled returns the ids of the events that are not settled.
func (b *bench) unsettled() []string {
	b.t.Helper()
	ids := []string{}
	b.must(b.ledger.Unsettled(b.ctx(), func(e events.Event, _ uint64, fault error) error {
		ids = append(ids, e.ID)
		return fault
	}))
	return ids
}

// shortWait is the AckWait of tests that wait for its end, longer than a busy machine pauses.
const shortWait = 3 * time.Second

// iterator reads the messages of the workers' consumer one at a time. It calls Next in a goroutine, so that a test
// can stop waiting for a message that does not come.
type iterator struct {
	b        *bench
	messages streams.Messages
	asked    chan answer // receives the result of the Next in progress; nil if there is none
}

type answer struct {
	msg jetstream.Msg
	err error
}

// iterator returns an iterator that requests one message at a time from the server, and nothing in advance.
func (b *bench) iterator() *iterator {
	b.t.Helper()
	consumer, err := b.Consumer(b.ctx())
	b.must(err)
	messages, err := consumer.Messages(1)
	b.must(err)
	b.t.Cleanup(messages.Stop)
	return &iterator{b: b, messages: messages}
}

// ask calls Next in a goroutine; next and end receive the result.
func (i *iterator) ask() {
	asked := make(chan answer, 1)
	i.asked = asked
	go func() {
		msg, err := i.messages.Next()
		asked <- answer{msg, err}
	}()
}

// wait calls ask, and returns once the server has the request for a message.
func (i *iterator) wait() {
	i.b.t.Helper()
	i.ask()
	consumer, err := i.b.Consumer(i.b.ctx())
	i.b.must(err)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		info, err := consumer.Info(i.b.ctx())
		i.b.must(err)
		if info.NumWaiting > 0 {
			return
		}
	}
	i.b.t.Fatal("the iterator does not ask")
}

// end returns the error that Next returned, and fails the test if a message came instead.
func (i *iterator) end() error {
	i.b.t.Helper()
	if i.asked == nil {
		i.ask()
	}
	select {
	case a := <-i.asked:
		i.asked = nil
		if a.err == nil {
			i.b.t.Fatalf("message %s came in place of the end", a.msg.Data())
		}
		return a.err
	case <-time.After(patience):
		i.b.t.Fatal("the iterator did not end")
		return nil
	}
}

// next returns the next message. It fails the test unless that is the event with this id in its
// times-th delivery.
func (i *iterator) next(id string, times uint64) jetstream.Msg {
	i.b.t.Helper()
	msg := i.one()
	facts, err := msg.Metadata()
	i.b.must(err)
	e, err := events.Decode(msg.Subject(), msg.Headers(), msg.Data())
	i.b.must(err)
	if e.ID != id || facts.NumDelivered != times {
		i.b.t.Fatalf("event %s came, delivered %d times, want %s, %d times", e.ID, facts.NumDelivered, id, times)
	}
	return msg
}

// one returns the next message.
func (i *iterator) one() jetstream.Msg {
	i.b.t.Helper()
	if i.asked == nil {
		i.ask()
	}
	select {
	case a := <-i.asked:
		i.asked = nil
		i.b.must(a.err)
		return a.msg
	case <-time.After(patience):
		i.b.t.Fatal("no message came")
		return nil
	}
}
