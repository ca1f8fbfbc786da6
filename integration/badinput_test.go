package integration_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// badInput is a message that can never be processed.
type badInput struct {
	name    string
	subject string
	data    string
	answer  string      // the reply's subject, "" where there is no inbox to tell
	code    engine.Code // of reply and dead letter
	dead    string      // the type that the dead letter lies under
	reason  string      // a part of it
}

func badInputs() []badInput {
	const subject = "hap.v1.provision.ga-1"
	envelope := func(id, kind, data string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/test","type":%q,"data":%s}`, id, kind, data)
	}
	provision := func(id, extra string) string {
		return envelope(id, "hap.provision.v1", `{"runtimeID":"rt-bad","globalAccountID":"ga-1","plan":"aws"`+extra+`}`)
	}
	reply := func(id string) string { return "hap.v1.reply.rt-bad." + id }
	return []badInput{
		{"not JSON", subject, "{", "", engine.CodeInvalidEvent, "provision", "JSON"},
		{"an unknown type", subject, envelope("b1", "hap.destroy.v1", `{"runtimeID":"rt-bad"}`), reply("b1"), engine.CodeInvalidEvent, "unknown", "hap.destroy.v1"},
		{"a missing field", subject, envelope("b2", "hap.provision.v1", `{"runtimeID":"rt-bad","globalAccountID":"ga-1"}`), reply("b2"), engine.CodeInvalidEvent, "provision", "plan"},
		{"a field of the wrong type", subject, provision("b3", `,"shootName":7`), reply("b3"), engine.CodeInvalidEvent, "provision", "shootName"},
		{"a tenant that is no label value", subject, envelope("b4", "hap.provision.v1", `{"runtimeID":"rt-bad","globalAccountID":"no such/tenant","plan":"aws"}`), reply("b4"), engine.CodeInvalidEvent, "provision", "globalAccountID"},
		{"a region that makes no label value", "hap.v1.provision.ga-1", envelope("b5", "hap.provision.v1", `{"runtimeID":"rt-bad","globalAccountID":"ga-1","plan":"sap-converged-cloud","hyperscalerRegion":"eu de 1"}`), reply("b5"), engine.CodeInvalidEvent, "provision", "eu de 1"},
		{"a subject unlike the data", "hap.v1.provision.ga-2", provision("b6", ""), reply("b6"), engine.CodeInvalidEvent, "provision", "ga-1"},
		{"an oversized message", subject, provision("b7", `,"shootName":"`+strings.Repeat("x", 300<<10)+`"`), reply("b7"), engine.CodeInvalidEvent, "provision", "262144"},
		{"an unknown plan", subject, envelope("b8", "hap.provision.v1", `{"runtimeID":"rt-bad","globalAccountID":"ga-1","plan":"mainframe"}`), reply("b8"), engine.CodeNoMatchingRule, "provision", "mainframe"},
		{"a provider outside the plan", subject, provision("b9", `,"provider":"azure"`), reply("b9"), engine.CodeUnknownProvider, "provision", "azure"},
		{"a replyTo that is no inbox", subject, provision("b10", `,"replyTo":"hap.v1.release.x"`), reply("b10"), engine.CodeInvalidEvent, "provision", "replyTo"},
		{"a deadline that is no time", subject, provision("b11", `,"deadline":"soon"`), reply("b11"), engine.CodeInvalidEvent, "provision", "deadline"},
		{"a resolve without a policy", "hap.v1.resolve.rt-bad", envelope("b12", "hap.resolve.v1", `{"runtimeID":"rt-bad","interface":{"path":"cap.interface.x"}}`), reply("b12"), engine.CodeNoImplementation, "resolve", "policy"},
	}
}

// TestBadInput sends what can never be processed: each has an error reply where
// one can be sent, lies in the dead-letter stream with its reason, and the
// consumer goes on.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := startStack(t, stack.Options{Config: []byte(oneAccountRules), Workers: 1, Accounts: roomyAccounts(2)})
	p := newPublisher(t, s)
	ledger := storage.NewLedger(p.js, p.subjects, "/integration")
	dead, err := p.js.Stream(p.ctx, events.StreamDead)
	if err != nil {
		t.Fatal(err)
	}
	for n, bad := range badInputs() {
		t.Run(bad.name, func(t *testing.T) {
			p.sendRaw(&nats.Msg{Subject: bad.subject, Data: []byte(bad.data), Header: nats.Header{
				"Content-Type": {events.ContentType}, "Nats-Msg-Id": {fmt.Sprintf("bad/%d", n)}, "X-Publisher": {"test"},
			}})
			p.flush()
			p.awaitSettled()
			if bad.answer != "" {
				stored, found, err := ledger.Last(p.ctx, bad.answer)
				if err != nil || !found {
					t.Fatalf("no reply on %s: %v", bad.answer, err)
				}
				if r := stored.Reply; r.Status != events.StatusRejected || r.Error.Code != bad.code || r.Error.Retryable || !strings.Contains(r.Error.Message, bad.reason) {
					t.Errorf("the reply is %s %+v, want rejected, %s and %q in the message", r.Status, r.Error, bad.code, bad.reason)
				}
			}
			letter, err := dead.GetLastMsgForSubject(p.ctx, "hap.v1.dead."+bad.dead)
			if err != nil {
				t.Fatal(err)
			}
			checkLetter(t, bad, letter)
		})
	}
	good := randomProvision(newRandom(t), 1)
	p.publish(good, "")
	p.flush()
	p.awaitSettled()
	if replies := p.replies(good.RuntimeID); len(replies) != 1 || replies[0].Status != events.StatusAssigned {
		t.Errorf("after all that, a good event is answered %+v", replies)
	}
	info, err := dead.Info(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.State.Msgs, uint64(len(badInputs())); got != want {
		t.Errorf("%d dead letters, want %d", got, want)
	}
}

func checkLetter(t *testing.T, bad badInput, letter *jetstream.RawStreamMsg) {
	t.Helper()
	want := bad.data
	if len(want) > 256<<10 {
		want = want[:256<<10]
		if letter.Header.Get("Hap-Truncated") == "" {
			t.Error("the data is cut and Hap-Truncated does not say so")
		}
	}
	if string(letter.Data) != want {
		t.Errorf("the dead letter has %d bytes of other data than was sent", len(letter.Data))
	}
	for name, part := range map[string]string{
		"Hap-Reason": bad.reason, "Hap-Code": string(bad.code), "X-Publisher": "test", "Hap-Orig-Msg-Id": "bad/",
	} {
		if !strings.Contains(letter.Header.Get(name), part) {
			t.Errorf("header %s is %q, want %q in it", name, letter.Header.Get(name), part)
		}
	}
	if letter.Header.Get("Hap-Stream-Seq") == "" {
		t.Error("no header Hap-Stream-Seq")
	}
}

// TestAnswerInInbox asks for a copy of the reply in an inbox.
func TestAnswerInInbox(t *testing.T) {
	t.Parallel()
	s := startStack(t, stack.Options{Config: []byte(oneAccountRules), Workers: 1, Accounts: roomyAccounts(2)})
	p := newPublisher(t, s)
	inbox := p.nc.NewInbox()
	copies, err := p.nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	e := randomProvision(newRandom(t), 1)
	e.Provision.ReplyTo = inbox
	p.publish(e, "")
	msg, err := copies.NextMsgWithContext(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	got, err := events.DecodeReply(msg.Data)
	if err != nil {
		t.Fatal(err)
	}
	// The copy is sent after the reply is stored.
	stored := p.replies(e.RuntimeID)
	if len(stored) != 1 || stored[0].Binding.Name != got.Binding.Name || got.RequestID != e.ID {
		t.Errorf("the copy says %+v, stored is %+v", got, stored)
	}
	if _, err := copies.NextMsg(1); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("a second copy: %v", err)
	}
}
