package foreign_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/foreign"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

var within, subjects = ledgertest.Within, ledgertest.Subjects

func publish(t *testing.T, nc *nats.Conn, subject, data string) {
	t.Helper()
	answer, err := nc.RequestMsgWithContext(within(t), &nats.Msg{Subject: subject, Data: []byte(data)})
	if err != nil || !strings.Contains(string(answer.Data), `"seq"`) {
		t.Fatalf("%s, %v", answer.Data, err)
	}
}

// TestForeignMessages: what readers pass over is found, and one by one removed, with
// nothing beside it.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	srv, js := ledgertest.Ready(t)
	nc := srv.Connect()
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	room := storage.NewWaitingRoom(js, subjects(t))
	messages := foreign.New(js, subjects(t))
	reply := events.Reply{
		RequestID: "fine", RuntimeID: "rt-fine", Status: events.StatusRejected,
		Error: &events.ReplyError{Code: engine.CodePoolExhausted, Message: "no", Retryable: true},
	}
	if _, err := ledger.Publish(within(t), subjects(t).Reply("rt-fine", "fine"), reply, 0); err != nil {
		t.Fatal(err)
	}
	publish(t, nc, subjects(t).Reply("rt-junk", "junk"), "hello")
	publish(t, nc, subjects(t).Reply("rt-newer", "newer"), `{"type":"hap.reply.v2","data":{"status":"granted"}}`)
	publish(t, nc, subjects(t).Provision("ga-1"), "no event")
	mine := storage.WaitingRequest{
		Pool: "aws+eu", Reason: events.WaitingPoolEmpty, Deadline: time.Now().Add(time.Hour),
		Event: events.Event{
			Type: events.TypeProvision, ID: "a", Source: "/test", RuntimeID: "rt-1",
			Provision: &events.Provision{RuntimeID: "rt-1", GlobalAccountID: "ga-1", Plan: "aws"},
		},
	}
	at := room.Subject(mine.Pool, mine.Event)
	publish(t, nc, at, "first")
	if _, err := room.Enter(within(t), mine); err != nil {
		t.Fatal(err)
	}
	publish(t, nc, at, "second")

	found := func(stream string) (all []foreign.Message) {
		t.Helper()
		err := messages.Each(within(t), stream, func(m foreign.Message) error { all = append(all, m); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	sequences := func(all []foreign.Message) (n []uint64) {
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
	for name, m := range map[string]foreign.Message{
		"an answer of a newer worker": inReplies[1], "an event": inEvents[0], "one with an older one on its subject": inWaiting[1],
	} {
		if err := messages.Remove(within(t), m); !errors.Is(err, foreign.ErrKept) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, m := range []foreign.Message{inReplies[0], inWaiting[0]} {
		if err := messages.Remove(within(t), m); err != nil {
			t.Error(err)
		}
	}
	for stream, want := range map[string][]uint64{events.StreamReplies: {3}, events.StreamWaiting: {3}, events.StreamEvents: {1}} {
		if got := sequences(found(stream)); !slices.Equal(got, want) {
			t.Errorf("%s has %v now, want %v", stream, got, want)
		}
	}
	if _, found, err := ledger.Last(within(t), subjects(t).Reply("rt-fine", "fine")); !found || err != nil {
		t.Errorf("the reply beside it: %v, %v", found, err)
	}
	waiting := 0
	if err := room.Each(within(t), func(storage.WaitingRequest) error { waiting++; return nil }); err != nil || waiting != 1 {
		t.Errorf("%d wait, %v", waiting, err)
	}
	if _, err := messages.Find(within(t), events.StreamReplies, 1); !errors.Is(err, foreign.ErrKept) {
		t.Errorf("a reply that can be read: %v", err)
	}
	if _, err := messages.Find(within(t), events.StreamReplies, 2); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("what was removed: %v", err)
	}
	if m, err := messages.Find(within(t), events.StreamWaiting, 3); err != nil || string(m.Data) != "second" {
		t.Errorf("%+v, %v", m, err)
	}
}
