package ledgertest

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

func testEventsOnce(b *bench) {
	empty, err := b.ledger.Backlog(b.ctx())
	b.must(err)
	first, again := b.event("a"), b.event("a")
	if again.Sequence != first.Sequence || !again.Duplicate || first.Duplicate {
		b.t.Errorf("published twice, stored as %+v, %+v", first, again)
	}
	b.event("b")
	b.same("left", b.unsettled(), []string{"a", "b"})
	backlog, err := b.ledger.Backlog(b.ctx())
	b.must(err)
	if empty.Last != 0 || empty.First != 1 || !empty.Oldest.IsZero() || backlog.First != 1 || backlog.Last != 2 || backlog.Oldest.IsZero() {
		b.t.Errorf("the backlog was %+v and is %+v", empty, backlog)
	}
}

func testEventsUntilAcknowledged(b *bench) {
	b.event("a")
	b.event("b")
	i := b.iterator()
	msg := i.next("a", 1)
	facts, err := msg.Metadata()
	b.must(err)
	// Not NumPending: the server counts it a moment after it stored a message.
	if facts.Sequence.Stream != 1 || facts.Sequence.Consumer != 1 || facts.Timestamp.IsZero() ||
		facts.Stream != b.subjects.Stream(events.StreamEvents) || facts.Consumer != events.ConsumerWorker ||
		msg.Subject() != b.subjects.Provision("ga") || msg.Headers().Get(jetstream.MsgIDHeader) != "provision/a/rt-a" {
		b.t.Errorf("the first message is %+v on %s, %v", facts, msg.Subject(), msg.Headers())
	}
	b.same("delivered, still there", b.unsettled(), []string{"a", "b"})
	b.must(msg.DoubleAck(b.ctx()))
	b.same("acknowledged", b.unsettled(), []string{"b"})
	b.wants(msg.Ack(), jetstream.ErrMsgAlreadyAckd)
	b.wants(msg.Nak(), jetstream.ErrMsgAlreadyAckd)
	b.wants(msg.InProgress(), jetstream.ErrMsgAlreadyAckd)
	b.must(i.next("b", 1).DoubleAck(b.ctx()))
	i.wait() // before there is an event
	b.event("c")
	b.must(i.next("c", 1).DoubleAck(b.ctx()))
	backlog, err := b.ledger.Backlog(b.ctx())
	b.must(err)
	if backlog != (storage.Backlog{First: 4, Last: 3}) {
		b.t.Errorf("the backlog is %+v", backlog)
	}
}

// testAckWait checks that events without an acknowledgement are delivered again after AckWait.
func testAckWait(b *bench) {
	begin := time.Now()
	ids := []string{"a", "b", "c", "d", "e", "f"}
	for _, id := range ids { // all before the first is taken: otherwise its redelivery could precede another event on a slow machine
		b.event(id)
	}
	i := b.iterator()
	for _, id := range ids {
		i.next(id, 1)
	}
	i.next("a", 2)
	if took := time.Since(begin); took < shortWait {
		b.t.Errorf("the event came again after %s", took)
	}
	for _, id := range ids[1:] {
		b.must(i.next(id, 2).DoubleAck(b.ctx()))
	}
	b.must(i.next("a", 3).DoubleAck(b.ctx()))
	b.same("left", b.unsettled(), nil)
}

func testInProgress(b *bench) {
	b.event("a")
	i := b.iterator()
	msg := i.next("a", 1)
	tick := time.NewTicker(shortWait / 3)
	defer tick.Stop()
	i.ask()
	for range 4 { // longer than AckWait
		<-tick.C
		b.must(msg.InProgress())
	}
	last := time.Now()
	b.must(i.next("a", 2).DoubleAck(b.ctx()))
	if took := time.Since(last); took < shortWait/2 {
		b.t.Errorf("the event came again %s after it was in progress", took)
	}
}

func testNak(b *bench) {
	b.event("a")
	b.event("b")
	i := b.iterator()
	first, second := i.next("a", 1), i.next("b", 1)
	b.must(second.Nak())
	b.must(first.Nak())
	b.must(i.next("b", 2).DoubleAck(b.ctx())) // in the order in which they were given back
	b.must(i.next("a", 2).DoubleAck(b.ctx()))
	b.same("left", b.unsettled(), nil)
}

func testNakWithDelay(b *bench) {
	b.event("a")
	b.event("b")
	i := b.iterator()
	msg := i.next("a", 1)
	given := time.Now()
	b.must(msg.NakWithDelay(shortWait))
	b.must(i.next("b", 1).DoubleAck(b.ctx())) // meanwhile
	b.must(i.next("a", 2).DoubleAck(b.ctx()))
	if took := time.Since(given); took < shortWait-10*time.Millisecond {
		b.t.Errorf("the event came again after %s", took)
	}
	b.same("left", b.unsettled(), nil)
}

func testTerm(b *bench) {
	b.event("a")
	b.event("b")
	i := b.iterator()
	b.must(i.next("a", 1).TermWithReason("InvalidEvent"))
	second := i.next("b", 1)
	b.must(second.Nak())
	b.must(i.next("b", 2).Term())
	b.event("c")
	b.must(i.next("c", 1).DoubleAck(b.ctx()))
	b.same("left", b.unsettled(), nil)
}

// testLateAck checks acknowledgements of a delivery after which the event was delivered again, or
// purged.
func testLateAck(b *bench) {
	b.event("a")
	i := b.iterator()
	late := i.next("a", 1)
	i.next("a", 2)
	b.must(late.DoubleAck(b.ctx())) // either delivery settles the event
	b.same("left", b.unsettled(), nil)
	b.event("x")
	late = i.next("x", 1)
	again := i.next("x", 2)
	b.must(late.Nak())
	b.must(again.DoubleAck(b.ctx())) // the late Nak does not have the event delivered again
	b.same("left then", b.unsettled(), nil)
	b.event("b")
	taken := i.next("b", 1)
	b.must(b.Purge(b.ctx(), b.subjects.Stream(events.StreamEvents), ">", streams.Everything))
	b.must(taken.Ack()) // of a message that was purged
	b.event("c")
	b.must(i.next("c", 1).DoubleAck(b.ctx()))
}

func testMaxAckPending(b *bench) {
	b.event("a")
	b.event("b")
	b.event("c")
	i := b.iterator()
	first, second := i.next("a", 1), i.next("b", 1)
	i.wait() // two are in work: the third waits, a redelivered one does not
	b.must(first.Nak())
	first = i.next("a", 2)
	i.wait()
	b.must(second.Nak())
	second = i.next("b", 2)
	i.wait()
	b.must(first.Ack())
	third := i.next("c", 1)
	b.must(second.DoubleAck(b.ctx()))
	b.must(third.DoubleAck(b.ctx()))
	b.same("left", b.unsettled(), nil)
}

func testSharedByWorkers(b *bench) {
	one, other := b.iterator(), b.iterator()
	b.event("a")
	b.event("b")
	first, second := one.next("a", 1), other.next("b", 1)
	b.must(first.Nak())
	b.must(other.next("a", 2).DoubleAck(b.ctx()))
	b.must(second.DoubleAck(b.ctx()))
	b.same("left", b.unsettled(), nil)
}

func testIteratorStopped(b *bench) {
	i, other := b.iterator(), b.iterator()
	i.wait()
	i.messages.Stop()
	b.wants(i.end(), jetstream.ErrMsgIteratorClosed)
	b.wants(i.end(), jetstream.ErrMsgIteratorClosed)
	b.event("a")
	msg := other.next("a", 1)
	other.messages.Drain()
	b.wants(other.end(), jetstream.ErrMsgIteratorClosed)
	b.must(msg.DoubleAck(b.ctx())) // a delivered event can still be settled
	b.same("left", b.unsettled(), nil)
}

func testConsumerDeleted(b *bench) {
	consumer, err := b.Consumer(b.ctx())
	b.must(err)
	b.event("a")
	i := b.iterator()
	i.next("a", 1)
	i.wait()
	stream := b.subjects.Stream(events.StreamEvents)
	b.must(b.DeleteConsumer(stream, events.ConsumerWorker))
	b.wants(i.end(), jetstream.ErrConsumerDeleted)
	_, err = consumer.Info(b.ctx())
	b.wants(err, jetstream.ErrConsumerNotFound)
	_, err = b.Consumer(b.ctx())
	b.wants(err, jetstream.ErrConsumerNotFound)
	b.wants(b.DeleteConsumer(stream, events.ConsumerWorker), jetstream.ErrConsumerNotFound)
	before := consumer.CachedInfo().Created
	b.must(b.Setup())
	info, err := consumer.Info(b.ctx())
	b.must(err)
	if !info.Created.After(before) {
		b.t.Errorf("the consumer was created at %s, and again at %s", before, info.Created)
	}
	b.must(b.iterator().next("a", 1).DoubleAck(b.ctx())) // the new consumer counts deliveries from 1
	b.same("left", b.unsettled(), nil)
}

func testStreamDeleted(b *bench) {
	consumer, err := b.Consumer(b.ctx())
	b.must(err)
	b.event("a")
	i := b.iterator()
	b.must(i.next("a", 1).DoubleAck(b.ctx()))
	old := b.event("b")
	before := i.next("b", 1)
	i.wait()
	b.must(b.DeleteStream(b.subjects.Stream(events.StreamEvents)))
	b.wants(i.end(), jetstream.ErrConsumerDeleted)
	_, err = consumer.Info(b.ctx())
	b.wants(err, jetstream.ErrStreamNotFound)
	_, err = b.ledger.Backlog(b.ctx())
	b.wants(err, jetstream.ErrStreamNotFound)
	msg, err := events.Publication(b.subjects, provision("rt", "c"))
	b.must(err)
	_, err = b.Publish(b.ctx(), msg)
	b.wants(err, jetstream.ErrNoStreamResponse)
	b.must(b.Setup())
	// The server matches an acknowledgement by names and numbers, so no sequence may be used twice.
	if anew := b.event("b"); anew.Sequence <= old.Sequence || anew.Duplicate || old.Sequence != 2 {
		b.t.Errorf("the stream begins anew at %d, after %d", anew.Sequence, old.Sequence)
	}
	after := b.iterator().next("b", 1)
	b.must(before.Ack())
	b.same("left", b.unsettled(), []string{"b"})
	b.must(after.DoubleAck(b.ctx()))
}
