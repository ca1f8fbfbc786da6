package worker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// A message on the reply subject that is not a reply does not prevent the answer.
func TestAnswerIsStoredOverJunk(t *testing.T) {
	t.Parallel()
	l := listen(t, nil)
	if _, err := l.js.Publish(l.within(), l.subjects.Reply("rt-1", "1"), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	l.publish("1")
	l.answered("1")
}

// A reply of a newer version may be final, so it is not replaced. The event is redelivered until that version
// handles it.
func TestUnknownReplyStays(t *testing.T) {
	t.Parallel()
	l := listen(t, nil, func(_ *listening, o *Options) { o.Budget = 200 * time.Millisecond })
	newer := `{"type":"hap.reply.v2","data":{"status":"granted"}}`
	if _, err := l.js.Publish(l.within(), l.subjects.Reply("rt-1", "1"), []byte(newer)); err != nil {
		t.Fatal(err)
	}
	l.publish("1")
	if i := l.next(); i.Outcome != observe.NakWithDelay {
		t.Errorf("%+v, want it later", i)
	}
	stream, err := l.js.Stream(l.within(), events.StreamReplies)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(l.within(), l.subjects.Reply("rt-1", "1"))
	if err != nil || string(msg.Data) != newer {
		t.Errorf("%s, %v; want what was there", msg.Data, err)
	}
}

// copies are what inboxes were sent.
type copies chan events.Reply

func (c copies) Copy(_ context.Context, _ string, r events.Reply) error {
	c <- r
	return nil
}

// A request with the id of another tenant's request becomes a dead letter. Its inbox gets InvalidEvent and
// nothing of the other tenant's reply, which stays stored.
func TestRequestUnderTheIDOfAnotherTenants(t *testing.T) {
	t.Parallel()
	told := make(copies, 10)
	l := listen(t, nil, func(_ *listening, o *Options) { o.Copies = told })
	for _, status := range []events.Status{events.StatusAssigned, events.StatusWaiting} {
		request := string(status)
		theirs := events.Reply{RequestID: request, RuntimeID: "rt-1", Status: status, GlobalAccountID: "ga-secret"}
		if status == events.StatusWaiting {
			theirs.Waiting = &events.Waiting{Reason: events.WaitingPoolEmpty, Deadline: time.Now()}
		} else {
			theirs.Binding = &events.Binding{Name: "secret", Namespace: "n", Kind: "CredentialsBinding", HyperscalerType: "aws"}
		}
		subject := l.subjects.Reply("rt-1", request)
		sequence, err := l.worker.ledger.Publish(l.within(), subject, theirs, 0)
		if err != nil {
			t.Fatal(err)
		}
		a := l.worker.begin(delivery{subject: subject, event: events.Event{
			Type: events.TypeProvision, ID: request, RuntimeID: "rt-1", ReplyTo: "_INBOX.x",
			Provision: &events.Provision{RuntimeID: "rt-1", GlobalAccountID: "ga-2", Plan: "aws"},
		}})
		out, err := l.worker.readStored(l.within(), a)
		if err != nil || out.verdict != observe.DeadLetter || out.code != engine.CodeInvalidEvent || out.binding != "" {
			t.Errorf("%s: %+v, %v; want a dead letter", status, out, err)
		}
		data, err := events.EncodeReply(<-told, "/test")
		if err != nil || strings.Contains(string(data)+out.reason, "secret") || !strings.Contains(string(data), "InvalidEvent") {
			t.Errorf("%s: the inbox is told %s, %v", status, data, err)
		}
		stored, _, err := l.worker.ledger.Last(l.within(), subject)
		if err != nil || stored.Sequence != sequence {
			t.Errorf("%s: %+v, %v; want the other's reply as it was", status, stored, err)
		}
	}
}
