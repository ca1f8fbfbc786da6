package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
)

// TestNATSMessageIDs lets each role publish on every subject, as message and as reply
// subject, with the Nats-Msg-Id that another one is about to use. Only who may publish
// requests can have the other's taken for a repeat at first, as docs/nats.md says; in no
// other stream any role can. TestNATSIDsOfOthers shows what that is good for.
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

// TestNATSIDsOfOthers: the cleanup job knows a request of the publisher before it is made,
// and the publisher one of the cleanup job. Neither keeps the other's event out of the
// stream, and neither has it answered.
func TestNATSIDsOfOthers(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, roleAccounts)
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	l.work(daemon.Options{Env: []string{"HAP_NATS_URL=" + g.url, g.login("WORKER")}})
	kyma, cleanup := g.client("PUBLISHER"), g.client("CLEANUP")
	// takes publishes on each subject what claims to be the request of the other role.
	takes := func(role, id, data string, subjects ...string) {
		t.Helper()
		js, err := jetstream.New(g.as(role, nats.CustomInboxPrefix("_INBOX."+strings.ToLower(role))))
		if err != nil {
			t.Fatal(err)
		}
		for n, subject := range subjects {
			for of, msgID := range map[string]string{"first": id, "next": fmt.Sprintf("%s-%d", role, n)} {
				ack, err := js.Publish(l.ctx, subject, []byte(data), jetstream.WithMsgID(msgID))
				if err != nil {
					t.Fatal(err)
				}
				if of == "first" && n == 0 && ack.Duplicate {
					t.Errorf("%s comes too late with %s", role, id)
				}
			}
		}
		eventually(l.ctx, t, func() error { // each is settled: what they could be answered with is there
			admin, err := jetstream.New(g.admin("HAP_EVENTS"))
			if err != nil {
				return err
			}
			stream, err := admin.Stream(l.ctx, events.StreamEvents)
			if err == nil && stream.CachedInfo().State.Msgs > 0 {
				err = fmt.Errorf("%d events are not settled", stream.CachedInfo().State.Msgs)
			}
			return err
		})
	}
	takes("CLEANUP", "provision/req-1/rt-1", `{"specversion":"1.0","id":"req-1","source":"/x","type":"hap.provision.v1","data":{"runtimeID":"rt-1","globalAccountID":"ga-1","plan":"aws"}}`,
		"hap.v1.release.aws-01", "hap.v1.release.rt-1", "hap.v1.release.ga-1")
	first, err := kyma.Provision(l.ctx, "req-1", events.Provision{RuntimeID: "rt-1", GlobalAccountID: "ga-1", Plan: "aws"})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := kyma.Deprovision(l.ctx, "bye-1", events.Deprovision{RuntimeID: "rt-1"})
	if err != nil || !gone.MarkedDirty {
		t.Fatalf("%+v, %v", gone, err)
	}
	takes("PUBLISHER", "release/clean-1/"+first.Binding.Name, fmt.Sprintf(`{"specversion":"1.0","id":"clean-1","source":"/x","type":"hap.release.v1","data":{"binding":%q}}`, first.Binding.Name),
		"hap.v1.resolve."+first.Binding.Name, "hap.v1.provision.ga-1", "hap.v1.deprovision.ga-1")
	if r, err := cleanup.Release(l.ctx, "clean-1", events.Release{Binding: first.Binding.Name, Generation: &gone.Binding.Generation}); err != nil || r.Status != events.StatusReturned {
		t.Errorf("%+v, %v", r, err)
	}
}
