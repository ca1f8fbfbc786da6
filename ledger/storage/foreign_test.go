package storage_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// junk is data that any client may have stored.
func junk() map[string][]byte {
	deep := strings.Repeat(`{"data":`, 20_000)
	return map[string][]byte{
		"empty": {}, "text": []byte("hello"), "cut off": []byte(`{"type":"hap.provision.v1","data":{`),
		"a PubAck": []byte(`{"stream":"HAP_WAITING","seq":7}`), "deep": []byte(deep), "huge": make([]byte, 900<<10),
		"no UTF-8": {0xff, 0xfe, 0x00, 0x1b, '['}, "another type": []byte(`{"type":"other","data":{"status":"assigned"}}`),
		"null": []byte(`null`), "an array": []byte(`[[[[1]]]]`),
	}
}

func publishRaw(t *testing.T, nc *nats.Conn, msg *nats.Msg) {
	t.Helper()
	answer, err := nc.RequestMsgWithContext(within(t), msg)
	if err != nil || !strings.Contains(string(answer.Data), `"seq"`) {
		t.Fatalf("%s, %v", answer.Data, err)
	}
}

// Junk among the replies is skipped and reported, and the request's reply is stored in its place.
func TestLedgerPassesOverJunk(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	nc := srv.Connect()
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	told := map[string]int{}
	ledger.OnForeign(func(f *events.Foreign) {
		told[f.Subject]++
		if text := f.Error(); len(text) > 700 || strings.ContainsAny(text, "\x1b\n\x00") || f.Stream != events.StreamReplies || f.Time.IsZero() {
			t.Errorf("%q", text)
		}
	})
	for name, data := range junk() {
		id := strings.ReplaceAll(name, " ", "-")
		publishRaw(t, nc, &nats.Msg{Subject: replySubject(t, id), Data: data})
	}
	publishRaw(t, nc, &nats.Msg{Subject: subjects(t).Prefix() + ".reply.not_an_id-.=ZZ.x.y.z", Data: []byte("hello")})
	store(t, ledger, rejected("fine", "PoolExhausted"), 0)
	if got := readAll(t, ledger); len(got) != 1 || len(told) != len(junk())+1 {
		t.Errorf("read %v, told of %v", got, told)
	}
	for name := range junk() {
		id := strings.ReplaceAll(name, " ", "-")
		stored, found, err := ledger.Last(within(t), replySubject(t, id))
		if err != nil || !found || stored.Foreign == nil || stored.Reply.Final() {
			t.Fatalf("%s: %+v, %v, %v", name, stored, found, err)
		}
		store(t, ledger, rejected(id, "PoolExhausted"), stored.Sequence)
		var all []events.Stored
		err = ledger.OfRuntime(within(t), "rt-"+id, func(s events.Stored) error { all = append(all, s); return nil })
		if err != nil || len(all) != 1 || all[0].Reply.RequestID != id {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
	if got := readAll(t, ledger); len(got) != 1+len(junk()) {
		t.Errorf("after the answers are stored: %v", got)
	}
}

// A possible final reply of a newer version is never replaced.
func TestLedgerKeepsWhatMayBeAFinalReply(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	for text, replaceable := range map[string]bool{
		`{"type":"hap.reply.v2","data":{"status":"granted"}}`:              false,
		`{"type":"hap.reply.v1","data":{"status":"assigned","binding":7}}`: false,
		`{"type":"hap.reply.v1"`:                                           false,
		`{"type":"hap.reply.v2","data":{"status":"waiting"}}`:              true,
		`{"type":"hap.reply.v2","data":{"status":"sealed"}}`:               true,
		`{"specversion":"1.0","type":"hap.reply.v1","id":"q/granted","source":"/s","data":{"requestID":"q","status":"granted"}}`: false,
		`{"data":{"status":"assigned"}}`: true,
	} {
		if _, err := js.Publish(within(t), replySubject(t, "1"), []byte(text)); err != nil {
			t.Fatal(err)
		}
		stored, found, err := ledger.Last(within(t), replySubject(t, "1"))
		if replaceable != (err == nil && found && stored.Foreign != nil) || replaceable == errors.Is(err, events.ErrUnknownReply) {
			t.Errorf("%s: %+v, %v, %v; want that it can be replaced: %v", text, stored, found, err, replaceable)
		}
	}
}

// Junk in the waiting room prevents no request from being read, nor from being stored on the junk's
// subject.
func TestWaitingRoomPassesOverJunk(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	nc := srv.Connect()
	room := storage.NewWaitingRoom(js, subjects(t))
	told := 0
	room.OnForeign(func(*events.Foreign) { told++ })
	mine := waits("rt-1", "a", time.Now().Add(time.Hour))
	other := waits("rt-1", "b", time.Now().Add(time.Hour))
	body, err := events.EncodeEvent(other.Event)
	if err != nil {
		t.Fatal(err)
	}
	at := room.Subject(mine.Pool, mine.Event)
	for _, data := range junk() {
		publishRaw(t, nc, &nats.Msg{Subject: at, Data: data})
	}
	publishRaw(t, nc, &nats.Msg{Subject: at, Data: body}) // another request's
	publishRaw(t, nc, &nats.Msg{Subject: at, Data: body, Header: nats.Header{"Content-Type": {"text/plain"}}})
	publishRaw(t, nc, &nats.Msg{Subject: subjects(t).Prefix() + ".waiting.=ZZ.-.x", Data: body})
	foreign := len(junk()) + 3
	for range 2 { // delivered twice
		if _, err := room.Enter(within(t), mine); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := room.Enter(within(t), other); err != nil {
		t.Fatal(err)
	}
	told = 0
	var ids []string
	read := func(w storage.WaitingRequest) error { ids = append(ids, w.Event.ID); return nil }
	if err := room.Each(within(t), read); err != nil || !slices.Equal(ids, []string{"a", "b"}) || told != foreign {
		t.Errorf("%v wait, told of %d, %v", ids, told, err)
	}
	addressed, without := 0, 0
	err = room.Addresses(within(t), "", func(a events.WaitingAddress, f *events.Foreign) error {
		if addressed++; f != nil && a.RuntimeID == "" {
			without++
		}
		return nil
	})
	if err != nil || addressed != foreign+2 || without != 1 {
		t.Errorf("%d messages, %d without an address, %v", addressed, without, err)
	}
	if err := room.Leave(within(t), at); err != nil {
		t.Fatal(err)
	}
	ids = nil
	if err := room.OfRuntime(within(t), "rt-1", read); err != nil || !slices.Equal(ids, []string{"b"}) {
		t.Errorf("%v wait after the first has left, %v", ids, err)
	}
}

// FuzzForeign: no stored message breaks a reading, and its error is one short line.
func FuzzForeign(f *testing.F) {
	for _, data := range junk() {
		f.Add(data)
	}
	f.Add([]byte(`{"type":"hap.reply.v2","data":{"status":"granted"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := events.ReadStored(events.StreamReplies, streams.Message{Subject: "hap.v1.reply.a.b", Sequence: 1, Data: data})
		foreign, ok := events.ForeignOf(err)
		if ok && (len(foreign.Error()) > 1000 || strings.ContainsAny(foreign.Error(), "\n\r\x1b")) {
			t.Errorf("%q", foreign.Error())
		}
	})
}
