package dead_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/dead"
)

func deadLetter(t *testing.T, js jetstream.JetStream, subject string) *jetstream.RawStreamMsg {
	t.Helper()
	stream, err := js.Stream(within(t), events.StreamDead)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(within(t), subject)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func TestBury(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	letters := dead.NewLetters(js, subjects(t))
	letter := dead.Event{
		Type: events.TypeProvision, Subject: "hap.v1.provision.ga-1", Sequence: 42, Data: []byte("hello"),
		Header: nats.Header{"Content-Type": {"text/plain"}, "Nats-Msg-Id": {"provision/1"}, "nats-expected-last-sequence": {"7"},
			"traceparent": {"00-a"}, "Hap-Code": {"forged"}, "X": {"a", "b"}},
	}
	for range 2 { // the second is the same letter again
		if err := letters.Put(within(t), letter, engine.CodeInvalidEvent, "not JSON\r\nNats-Rollup: all\nat \xff byte 0"); err != nil {
			t.Fatal(err)
		}
	}
	msg := deadLetter(t, js, "hap.v1.dead.provision")
	if string(msg.Data) != "hello" || msg.Sequence != 1 {
		t.Errorf("%d %s", msg.Sequence, msg.Data)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/plain", "Hap-Orig-Msg-Id": "provision/1", "Hap-Orig-expected-last-sequence": "7", "traceparent": "00-a", "X": "a,b",
		"Hap-Code": "InvalidEvent", "Hap-Reason": "not JSON  Nats-Rollup: all at � byte 0", "Hap-Stream-Seq": "42",
		"Hap-Orig-Subject": "hap.v1.provision.ga-1", "Nats-Msg-Id": "HAP_EVENTS/42", "Hap-Truncated": "", "Nats-Rollup": "",
	} {
		if got := strings.Join(msg.Header[name], ","); got != want {
			t.Errorf("%s: %q instead of %q", name, got, want)
		}
	}
	if len(letter.Header) != 6 || letter.Header["Hap-Code"][0] != "forged" {
		t.Errorf("the event's own headers are changed: %v", letter.Header)
	}
}

func TestBuryTooLarge(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	letters := dead.NewLetters(js, subjects(t))
	data := make([]byte, 700<<10)
	for i := range data {
		data[i] = byte(i)
	}
	if err := letters.Put(within(t), dead.Event{Sequence: 1, Data: data}, engine.CodeInvalidEvent, strings.Repeat("ä", 1<<20)); err != nil {
		t.Fatal(err)
	}
	msg := deadLetter(t, js, "hap.v1.dead.unknown")
	if string(msg.Data) != string(data[:256<<10]) || msg.Header.Get("Hap-Truncated") != "data" {
		t.Errorf("%d bytes, %q", len(msg.Data), msg.Header.Get("Hap-Truncated"))
	}
	if reason := msg.Header.Get("Hap-Reason"); len(reason) > 3<<10 || !strings.HasSuffix(reason, "ä…") {
		t.Errorf("a reason of %d bytes", len(reason))
	}
	// Exactly 256 KiB are not cut; headers that leave no room are.
	letter := dead.Event{Sequence: 2, Data: data[:256<<10], Header: nats.Header{"Big": {strings.Repeat("x", 800<<10)}}}
	if err := letters.Put(within(t), letter, engine.CodeInternal, "r"); err != nil {
		t.Fatal(err)
	}
	msg = deadLetter(t, js, "hap.v1.dead.unknown")
	if len(msg.Data) != 256<<10 || msg.Header.Get("Hap-Truncated") != "headers" || msg.Header.Get("Big") != "" {
		t.Errorf("%d bytes, %q", len(msg.Data), msg.Header.Get("Hap-Truncated"))
	}
}

// NATS may accept an event, and refuse its dead letter because of the additional headers.
func TestBuryWhereLessFits(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	stream, err := js.Stream(within(t), events.StreamDead)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxMsgSize = 10 << 10
	if _, err := js.UpdateStream(within(t), config); err != nil {
		t.Fatal(err)
	}
	letters := dead.NewLetters(js, subjects(t))
	if err := letters.Put(within(t), dead.Event{Sequence: 1, Data: make([]byte, 10<<10)}, engine.CodeInvalidEvent, "why"); err != nil {
		t.Fatal(err)
	}
	msg := deadLetter(t, js, "hap.v1.dead.unknown")
	if len(msg.Data) != 5<<10 || msg.Header.Get("Hap-Truncated") != "data" {
		t.Errorf("%d bytes, %q", len(msg.Data), msg.Header.Get("Hap-Truncated"))
	}
	letter := dead.Event{Sequence: 2, Data: []byte("{}"), Header: nats.Header{"Big": {strings.Repeat("x", 20<<10)}}}
	if err := letters.Put(within(t), letter, engine.CodeInvalidEvent, "why"); err != nil {
		t.Fatal(err)
	}
	msg = deadLetter(t, js, "hap.v1.dead.unknown")
	if string(msg.Data) != "{}" || msg.Header.Get("Hap-Truncated") != "headers" || msg.Header.Get("Hap-Reason") != "why" {
		t.Errorf("%d bytes, %v", len(msg.Data), msg.Header)
	}
}

func TestBuryWithoutStream(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	if err := js.DeleteStream(within(t), events.StreamDead); err != nil {
		t.Fatal(err)
	}
	err := dead.NewLetters(js, subjects(t)).Put(within(t), dead.Event{Sequence: 42}, engine.CodeInternal, "r")
	if err == nil || !strings.Contains(err.Error(), "sequence 42") {
		t.Errorf("%v", err)
	}
}

// A dead letter is read as the event was published: with its own headers, and with the reason beside
// them.
func TestReadLetters(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	letters := dead.NewLetters(js, subjects(t))
	data := []byte(`{"specversion":"1.0","id":"req-1-r1","source":"/s","type":"hap.deprovision.v1","replayof":"req-1","data":{"runtimeID":"rt-1"}}`)
	header := nats.Header{"Content-Type": {events.ContentType}, "Nats-Msg-Id": {"deprovision/req-1-r1"}}
	for sequence, text := range map[uint64][]byte{7: data, 9: []byte("no JSON")} {
		letter := dead.Event{Type: events.TypeDeprovision, Subject: "hap.v1.deprovision.unknown", Sequence: sequence, Header: header, Data: text}
		if err := letters.Put(within(t), letter, engine.CodeInvalidEvent, "why"); err != nil {
			t.Fatal(err)
		}
	}
	var found []dead.Letter
	if err := letters.Each(within(t), func(l dead.Letter) error {
		found = append(found, l)
		return nil
	}); err != nil || len(found) != 2 {
		t.Fatalf("%d letters, %v", len(found), err)
	}
	for _, l := range found {
		if l.Code != engine.CodeInvalidEvent || l.Reason != "why" || l.Subject != "hap.v1.deprovision.unknown" || l.StoredAt.IsZero() {
			t.Errorf("%+v", l)
		}
		valid := l.Sequence == 7
		if (l.Fault == nil) != valid || valid && (l.Event.RuntimeID != "rt-1" || l.Event.ReplayOf != "req-1") || l.Event.ID != "req-1-r1" {
			t.Errorf("sequence %d: %+v, %v", l.Sequence, l.Event, l.Fault)
		}
		again, err := letters.Letter(within(t), l.Number)
		if err != nil || again.Sequence != l.Sequence {
			t.Errorf("letter %d: %+v, %v", l.Number, again, err)
		}
	}
	if _, err := letters.Letter(within(t), 99); !errors.Is(err, dead.ErrNoLetter) {
		t.Errorf("letter 99: %v", err)
	}
	stop := errors.New("enough")
	if err := letters.Each(within(t), func(dead.Letter) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}
