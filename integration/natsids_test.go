package integration_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
)

// TestNATSMessageIDs lets each role publish on every subject, as message and as reply
// subject, with the Nats-Msg-Id that another one is about to use. Only who may publish
// requests can have the other's taken for a repeat, as docs/nats.md says; in no other
// stream anybody can.
func TestNATSMessageIDs(t *testing.T) {
	t.Parallel()
	a := newAttacked(t, roleAccounts, nil)
	ctx := t.Context()
	repeats := func(stream, id string) bool {
		t.Helper()
		js := a.admins[stream]
		info, err := js.Stream(ctx, stream)
		if err != nil {
			t.Fatal(err)
		}
		ack, err := js.Publish(ctx, literal(info.CachedInfo().Config.Subjects[0]), nil, jetstream.WithMsgID(id))
		if err != nil {
			t.Fatal(err)
		}
		return ack.Duplicate
	}
	publishers := map[string][]string{
		events.StreamEvents: {"PUBLISHER", "CLEANUP", "OPERATOR"}, events.StreamReplies: {"WORKER"}, events.StreamWaiting: {"WORKER"}, events.StreamDead: {"WORKER"},
	}
	for _, role := range roles {
		nc := a.as(role, nats.CustomInboxPrefix("_INBOX.own"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		id := nats.Header{"Nats-Msg-Id": {"taken-by-" + role}}
		for _, target := range a.targets {
			if a.changes(role, target) {
				continue
			}
			for _, reply := range []string{"", "_INBOX.own.answer", a.targets[0]} {
				if err := nc.PublishMsg(&nats.Msg{Subject: target, Reply: reply, Header: id}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		a.barrier()
		for stream, may := range publishers {
			if got := repeats(stream, "taken-by-"+role); got != slices.Contains(may, role) {
				t.Errorf("%s has a message of %s taken for a repeat: %t", role, stream, got)
			}
		}
	}
}
