package events_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
)

// TestForeignMessages: what readers pass over is found, and one by one removed, with
// nothing beside it.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	nc := srv.Connect()
	ledger := events.NewLedger(js, subjects(t), "/hap-worker")
	room := events.NewWaitingRoom(js, subjects(t))
	messages := events.NewForeignMessages(js, subjects(t))
	store(t, ledger, rejected("fine", "PoolExhausted"), 0)
	publishRaw(t, nc, &nats.Msg{Subject: replySubject(t, "junk"), Data: []byte("hello")})
	publishRaw(t, nc, &nats.Msg{Subject: replySubject(t, "newer"), Data: []byte(`{"type":"hap.reply.v2","data":{"status":"granted"}}`)})
	publishRaw(t, nc, &nats.Msg{Subject: subjects(t).Provision("ga-1"), Data: []byte("no event")})
	mine := waits("rt-1", "a", time.Now().Add(time.Hour))
	at := room.Subject(mine.Pool, mine.Event)
	publishRaw(t, nc, &nats.Msg{Subject: at, Data: []byte("first")})
	if err := room.Enter(within(t), mine); err != nil {
		t.Fatal(err)
	}
	publishRaw(t, nc, &nats.Msg{Subject: at, Data: []byte("second")})

	found := func(stream string) (all []events.ForeignMessage) {
		t.Helper()
		err := messages.Each(within(t), stream, func(m events.ForeignMessage) error { all = append(all, m); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	sequences := func(all []events.ForeignMessage) (n []uint64) {
		for _, m := range all {
			n = append(n, m.Sequence)
		}
		return n
	}
	inReplies, inWaiting, inEvents := found(events.StreamReplies), found(events.StreamWaiting), found(events.StreamEvents)
	if !slices.Equal(sequences(inReplies), []uint64{2, 3}) || !slices.Equal(sequences(inWaiting), []uint64{1, 3}) || !slices.Equal(sequences(inEvents), []uint64{1}) {
		t.Fatalf("found %v, %v, %v", inReplies, inWaiting, inEvents)
	}
	if w := inWaiting[0]; w.Request.RequestID != "a" || w.Request.RuntimeID != "rt-1" || string(w.Data) != "first" {
		t.Errorf("%+v", w)
	}
	for name, m := range map[string]events.ForeignMessage{
		"an answer of a newer worker": inReplies[1], "an event": inEvents[0], "one with an older one on its subject": inWaiting[1],
	} {
		if err := messages.Remove(within(t), m); !errors.Is(err, events.ErrKept) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, m := range []events.ForeignMessage{inReplies[0], inWaiting[0]} {
		if err := messages.Remove(within(t), m); err != nil {
			t.Error(err)
		}
	}
	for stream, want := range map[string][]uint64{events.StreamReplies: {3}, events.StreamWaiting: {3}, events.StreamEvents: {1}} {
		if got := sequences(found(stream)); !slices.Equal(got, want) {
			t.Errorf("%s has %v now, want %v", stream, got, want)
		}
	}
	if _, found, err := ledger.Last(within(t), replySubject(t, "fine")); !found || err != nil {
		t.Errorf("the reply beside it: %v, %v", found, err)
	}
	waiting := 0
	if err := room.Each(within(t), func(events.WaitingRequest) error { waiting++; return nil }); err != nil || waiting != 1 {
		t.Errorf("%d wait, %v", waiting, err)
	}
	if _, err := messages.Find(within(t), events.StreamReplies, 1); !errors.Is(err, events.ErrKept) {
		t.Errorf("a reply that can be read: %v", err)
	}
	if _, err := messages.Find(within(t), events.StreamReplies, 2); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("what was removed: %v", err)
	}
	if m, err := messages.Find(within(t), events.StreamWaiting, 3); err != nil || string(m.Data) != "second" {
		t.Errorf("%+v, %v", m, err)
	}
}
