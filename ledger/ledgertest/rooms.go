package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// enter stores a waiting request.
func (b *bench) enter(runtime, request string, deadline time.Time) {
	b.t.Helper()
	_, err := b.room.Enter(b.ctx(), storage.WaitingRequest{
		Event: provision(runtime, request), Pool: "aws+eu", Reason: events.WaitingPoolEmpty, Deadline: deadline,
	})
	b.must(err)
}

// waiting returns the ids of the requests that wait, of one runtime or with "" of all.
func (b *bench) waiting(runtime string) []string {
	b.t.Helper()
	ids := []string{}
	visit := func(w storage.WaitingRequest) error {
		ids = append(ids, w.Event.ID)
		if w.Pool != "aws+eu" || w.Reason != events.WaitingPoolEmpty || w.Since.IsZero() || w.Subject != b.room.Subject(w.Pool, w.Event) {
			b.t.Errorf("%+v waits", w)
		}
		return nil
	}
	if runtime == "" {
		b.must(b.room.Each(b.ctx(), visit))
	} else {
		b.must(b.room.OfRuntime(b.ctx(), runtime, visit))
	}
	return ids
}

func testWaitingInOrder(b *bench) {
	deadline := time.Date(2026, 11, 21, 12, 0, 0, 500, time.UTC)
	b.enter("rt-1", "a", deadline)
	b.enter("rt-2", "b", deadline)
	b.enter("rt-1", "c", deadline)
	b.enter("rt-1", "a", deadline.Add(time.Hour)) // again: the first deadline stays
	b.same("waiting", b.waiting(""), []string{"a", "b", "c"})
	b.same("of rt-1", b.waiting("rt-1"), []string{"a", "c"})
	b.must(b.room.Each(b.ctx(), func(w storage.WaitingRequest) error {
		if !w.Deadline.Equal(deadline) {
			b.t.Errorf("%s waits until %s", w.Event.ID, w.Deadline)
		}
		return nil
	}))
	b.must(b.room.Leave(b.ctx(), b.room.Subject("aws+eu", provision("rt-1", "a"))))
	b.must(b.room.Leave(b.ctx(), b.room.Subject("aws+eu", provision("rt-1", "a"))))
	b.same("left", b.waiting(""), []string{"b", "c"})
	b.enter("rt-1", "a", deadline) // and is the last one now
	b.same("back", b.waiting(""), []string{"b", "c", "a"})
	enough := errors.New("enough")
	b.wants(b.room.Each(b.ctx(), func(storage.WaitingRequest) error { return enough }), enough)
}

// testWaitingFollowed calls After repeatedly, each time from the sequence that it returned before.
func testWaitingFollowed(b *bench) {
	var ids []string
	follow := func(after uint64) uint64 {
		b.t.Helper()
		ids = []string{}
		read, err := b.room.After(b.ctx(), after, func(w storage.WaitingRequest) error {
			ids = append(ids, w.Event.ID)
			if w.Sequence <= after {
				b.t.Errorf("%s has the sequence %d, after %d", w.Event.ID, w.Sequence, after)
			}
			return nil
		})
		b.must(err)
		return read
	}
	read := follow(0)
	b.same("nothing", ids, []string{})
	b.enter("rt-1", "a", time.Time{})
	b.enter("rt-2", "b", time.Time{})
	read = follow(read)
	b.same("two", ids, []string{"a", "b"})
	b.enter("rt-3", "c", time.Time{})
	foreign := b.raw(b.subjects.Waiting("aws+eu", "ga", "rt-4", "d"), "hello")
	if read = follow(read); read != foreign || len(b.foreign) != 1 {
		b.t.Errorf("read up to sequence %d and told of %d unreadable messages; want up to %d, told of once", read, len(b.foreign), foreign)
	}
	b.same("one more", ids, []string{"c"})
	follow(read)
	b.same("nothing new", ids, []string{})
	subject := b.room.Subject("aws+eu", provision("rt-1", "a"))
	w, found, err := b.room.Get(b.ctx(), subject)
	b.must(err)
	if !found || w.Event.ID != "a" || w.Subject != subject {
		b.t.Errorf("%+v, %t; want a", w, found)
	}
	b.must(b.room.Leave(b.ctx(), subject))
	if _, found, err = b.room.Get(b.ctx(), subject); found || err != nil {
		b.t.Errorf("%t, %v; want nothing once it has left", found, err)
	}
	messages, last, err := b.room.State(b.ctx())
	b.must(err)
	if messages != 3 || last != foreign {
		b.t.Errorf("%d messages up to %d, want 3 up to %d", messages, last, foreign)
	}
	subjects, err := b.room.Subjects(b.ctx())
	b.must(err)
	if len(subjects) != 3 || subjects[subject] != 0 || subjects[b.room.Subject("aws+eu", provision("rt-3", "c"))] != 1 {
		b.t.Errorf("subjects %v", subjects)
	}
}

// testManyWait stores more requests than Each reads one by one, with gaps between their sequences.
func testManyWait(b *bench) {
	want := []string{}
	for n := range 1300 {
		id := fmt.Sprintf("r-%d", n)
		b.enter("rt-"+id, id, time.Time{})
		if n%7 == 0 || n > 400 && n < 1100 {
			b.must(b.room.Leave(b.ctx(), b.room.Subject("aws+eu", provision("rt-"+id, id))))
		} else {
			want = append(want, id)
		}
	}
	b.same("waiting", b.waiting(""), want)
	enough, seen := errors.New("enough"), 0
	b.wants(b.room.Each(b.ctx(), func(storage.WaitingRequest) error {
		if seen++; seen == 100 {
			return enough
		}
		return nil
	}), enough)
}

// testLargestWaits stores the longest accepted event as a waiting request. The stored form is longer:
// it contains the trace of the headers, and attributes that the publisher left out.
func testLargestWaits(b *bench) {
	header := nats.Header{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, "tracestate": {strings.Repeat("s", 512)}}
	const before, after = `{"specversion":"1.0","id":"a","source":"/test","type":"hap.provision.v1",` +
		`"data":{"runtimeID":"rt","globalAccountID":"ga","plan":"aws","cluster":{"labels":{"l":"`, `"}}}}`
	message := []byte(before + strings.Repeat("x", events.MaxMessage-len(before)-len(after)) + after)
	e, err := events.Decode(b.subjects.Provision("ga"), header, message)
	b.must(err)
	if len(message) != events.MaxMessage || len(e.Tracestate) != 512 {
		b.t.Fatalf("%d bytes, with %+v", len(message), header)
	}
	_, err = b.room.Enter(b.ctx(), storage.WaitingRequest{Event: e, Pool: "aws+eu", Reason: events.WaitingPoolEmpty, Deadline: time.Now()})
	b.must(err)
	b.same("waiting", b.waiting(""), []string{"a"})
	b.must(b.room.OfRuntime(b.ctx(), "rt", func(w storage.WaitingRequest) error {
		if len(w.Event.Provision.Cluster.Labels["l"]) != len(e.Provision.Cluster.Labels["l"]) || w.Event.Tracestate != e.Tracestate {
			b.t.Errorf("it waits with %d of its bytes and the trace state %q", len(w.Event.Provision.Cluster.Labels["l"]), w.Event.Tracestate)
		}
		return nil
	}))
}

func testForeignWaiting(b *bench) {
	deadline := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	subject := b.room.Subject("aws+eu", provision("rt", "a"))
	b.raw(subject, "scribble")
	if _, found, err := b.room.Get(b.ctx(), subject); found || err != nil {
		b.t.Errorf("an unreadable message: %t, %v", found, err)
	}
	b.enter("other", "b", deadline)
	b.same("waiting", b.waiting(""), []string{"b"})
	var addresses []string
	visit := func(a events.WaitingAddress, f *events.Foreign) error {
		addresses = append(addresses, fmt.Sprint(a.RuntimeID, " ", a.RequestID, " ", f != nil))
		return nil
	}
	b.must(b.room.Addresses(b.ctx(), "", visit))
	b.must(b.room.Addresses(b.ctx(), "rt", visit))
	b.same("addresses", addresses, []string{"rt a true", "other b false", "rt a true"})
	b.enter("rt", "a", deadline) // beside the unreadable message
	b.same("waiting too", b.waiting(""), []string{"b", "a"})
	b.raw(subject, "scribble") // now the last one
	w, found, err := b.room.Get(b.ctx(), subject)
	b.must(err)
	if !found || w.Event.ID != "a" || !w.Deadline.Equal(deadline) {
		b.t.Errorf("among unreadable messages: %+v, %t; want a", w, found)
	}
	b.must(b.room.Leave(b.ctx(), subject)) // all three
	addresses = nil
	b.must(b.room.Addresses(b.ctx(), "", visit))
	b.same("left", addresses, []string{"other b false"})
}

func letter(sequence uint64, data string) dead.Event {
	return dead.Event{
		Type: events.TypeProvision, Subject: "hap.provision.ga", Sequence: sequence, Published: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Header: nats.Header{"Nats-Msg-Id": {"provision/a"}, "X-Trace": {"1"}}, Data: []byte(data),
	}
}

// letters returns the dead letters.
func (b *bench) letters() (found []dead.Letter) {
	b.t.Helper()
	b.must(b.dead.Each(b.ctx(), func(l dead.Letter) error {
		found = append(found, l)
		return nil
	}))
	return found
}

func testDeadLetters(b *bench) {
	for range 2 { // the second time it is there
		b.must(b.dead.Put(b.ctx(), letter(3, "no JSON"), engine.CodeInvalidEvent, "two\nlines "))
	}
	b.must(b.dead.Put(b.ctx(), letter(4, "neither"), engine.CodeNoMatchingRule, "no rule"))
	found := b.letters()
	if len(found) != 2 {
		b.t.Fatalf("%d dead letters", len(found))
	}
	l := found[0]
	if l.Code != engine.CodeInvalidEvent || l.Reason != "two lines" || l.Sequence != 3 || string(l.Data) != "no JSON" ||
		l.Subject != "hap.provision.ga" || l.Truncated != "" || l.Fault == nil || l.Header.Get("Nats-Orig-Msg-Id") != "" ||
		l.Header.Get("Hap-Orig-Msg-Id") != "provision/a" || l.Header.Get("X-Trace") != "1" || l.StoredAt.IsZero() {
		b.t.Errorf("the letter is %+v", l)
	}
	again, err := b.dead.Letter(b.ctx(), found[1].Number)
	b.must(err)
	if string(again.Data) != "neither" {
		b.t.Errorf("letter %d is %+v", found[1].Number, again)
	}
	_, err = b.dead.Letter(b.ctx(), found[1].Number+1)
	b.wants(err, dead.ErrNoLetter)
}

func testDeadLetterCut(b *bench) {
	l := letter(3, strings.Repeat("x", events.MaxMessage+1))
	l.Header["Long"] = []string{strings.Repeat("y", 100<<10)}
	b.must(b.dead.Put(b.ctx(), l, engine.CodeInvalidEvent, "too long"))
	if found := b.letters(); len(found) != 1 || len(found[0].Data) != events.MaxMessage || found[0].Truncated != "data,headers" {
		b.t.Errorf("%d letters: %d bytes, cut %q", len(found), len(found[0].Data), found[0].Truncated)
	}
}

// testCallerGone checks that a call whose context has ended returns its error and stores nothing.
func testCallerGone(b *bench) {
	gone, cancel := context.WithCancel(b.t.Context())
	cancel()
	_, _, err := b.ledger.Last(gone, b.subjects.Reply("rt", "a"))
	b.wants(err, context.Canceled)
	_, err = b.ledger.Publish(gone, b.subjects.Reply("rt", "a"), reply("rt", "a", events.StatusReleased), 0)
	b.wants(err, context.Canceled)
	b.wants(b.room.Leave(gone, "hap.waiting.x"), context.Canceled)
	b.wants(b.ledger.Each(gone, func(events.Stored) error { return nil }), context.Canceled)
	_, err = b.ledger.Backlog(gone)
	b.wants(err, context.Canceled)
	consumer, err := b.Consumer(b.ctx())
	b.must(err)
	_, err = consumer.Info(gone)
	b.wants(err, context.Canceled)
	b.same("stored", b.statuses(b.all), nil)
}
