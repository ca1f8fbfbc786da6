package storage_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/events"
)

// TestRepeatWithReplyTo: a request with replyTo that is published again is no duplicate to
// the stream, so that a worker sends its copy; one without is.
func TestRepeatWithReplyTo(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	for replyTo, duplicate := range map[string]bool{"": true, "_INBOX.x": false} {
		e := events.Event{
			Type: events.TypeProvision, ID: "req" + replyTo[min(len(replyTo), 7):], Source: "/test",
			Provision: &events.Provision{RuntimeID: "rt", GlobalAccountID: "ga", Plan: "aws", ReplyTo: replyTo},
		}
		for n, want := range []bool{false, duplicate} {
			msg, err := events.Publication(subjects(t), e)
			if err != nil {
				t.Fatal(err)
			}
			ack, err := js.PublishMsg(within(t), msg)
			if err != nil || ack.Duplicate != want {
				t.Errorf("publication %d with replyTo %q: %+v, %v", n, replyTo, ack, err)
			}
			if again, err := js.PublishMsg(within(t), msg); err != nil || !again.Duplicate {
				t.Errorf("the same message again: %+v, %v", again, err)
			}
		}
	}
}
