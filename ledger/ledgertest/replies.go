package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

func testFirstReplyStands(b *bench) {
	subject := b.subjects.Reply("rt", "p")
	if _, found, err := b.ledger.Last(b.ctx(), subject); found || err != nil {
		b.t.Fatalf("found %v in an empty ledger, %v", found, err)
	}
	waiting := b.reply(reply("rt", "p", events.StatusWaiting), 0)
	_, err := b.ledger.Publish(b.ctx(), subject, reply("rt", "p", events.StatusReleased), 0)
	b.wants(err, storage.ErrWrongLastSequence)
	final := b.reply(reply("rt", "p", events.StatusRejected), waiting)
	if final <= waiting {
		b.t.Errorf("sequence %d after %d", final, waiting)
	}
	for _, expected := range []uint64{0, waiting, final + 1} {
		_, err = b.ledger.Publish(b.ctx(), subject, reply("rt", "p", events.StatusReleased), expected)
		b.wants(err, storage.ErrWrongLastSequence)
	}
	stored, found, err := b.ledger.Last(b.ctx(), subject)
	b.must(err)
	if !found || stored.Sequence != final || stored.Subject != subject || stored.Reply.Status != events.StatusRejected ||
		stored.Reply.Error.Code != engine.CodePoolExhausted || stored.Time.IsZero() {
		b.t.Errorf("the last reply is %+v", stored)
	}
}

// statuses returns request id and status of each reply that read visits.
func (b *bench) statuses(read func(visit func(events.Stored) error) error) []string {
	b.t.Helper()
	said := []string{}
	b.must(read(func(s events.Stored) error {
		if s.Foreign != nil {
			said = append(said, fmt.Sprintf("foreign %d", s.Foreign.Sequence))
		} else {
			said = append(said, fmt.Sprintf("%s %s", s.Reply.RequestID, s.Reply.Status))
		}
		return nil
	}))
	return said
}

func (b *bench) all(visit func(events.Stored) error) error { return b.ledger.Each(b.ctx(), visit) }

func (b *bench) ofRuntime(runtime string) []string {
	b.t.Helper()
	return b.statuses(func(visit func(events.Stored) error) error { return b.ledger.OfRuntime(b.ctx(), runtime, visit) })
}

func (b *bench) same(what string, got, want []string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func testRepliesInOrder(b *bench) {
	first := b.reply(reply("rt", "p", events.StatusWaiting), 0)
	b.reply(reply("other", "q", events.StatusAssigned), 0)
	b.reply(reply("rt", "d", events.StatusReleased), 0)
	_, err := b.ledger.Seal(b.ctx(), provision("rt", "p"), first) // it replaces the waiting reply
	b.must(err)
	b.same("the ledger", b.statuses(b.all), []string{"q assigned", "d released", "p sealed"})
	b.same("of rt", b.ofRuntime("rt"), []string{"d released", "p sealed"})
	b.same("of another one", b.ofRuntime("r"), nil)
	end, err := b.ledger.End(b.ctx())
	b.must(err)
	for _, c := range []struct {
		sequence uint64
		want     []string
	}{{0, []string{"q assigned", "d released", "p sealed"}}, {end - 1, []string{"p sealed"}}, {end, nil}} {
		b.same(fmt.Sprintf("after %d of %d", c.sequence, end), b.statuses(func(visit func(events.Stored) error) error {
			return b.ledger.After(b.ctx(), c.sequence, visit)
		}), c.want)
	}

	// Each also visits what is stored while it reads. OfRuntime visits nothing that is
	// stored after it has begun.
	more := func(request string) func(visit func(events.Stored) error) error {
		return func(visit func(events.Stored) error) error {
			return b.ledger.Each(b.ctx(), func(s events.Stored) error {
				if s.Reply.RequestID == "q" {
					b.reply(reply("rt", request, events.StatusReleased), 0)
				}
				return visit(s)
			})
		}
	}
	b.same("with what came", b.statuses(more("e")), []string{"q assigned", "d released", "p sealed", "e released"})
	b.same("of rt, not what came", b.statuses(func(visit func(events.Stored) error) error {
		return b.ledger.OfRuntime(b.ctx(), "rt", func(s events.Stored) error {
			if s.Reply.RequestID == "d" {
				b.reply(reply("rt", "f", events.StatusReleased), 0)
			}
			return visit(s)
		})
	}), []string{"d released", "p sealed", "e released"})
	enough := errors.New("enough")
	b.wants(b.ledger.Each(b.ctx(), func(events.Stored) error { return enough }), enough)
	b.wants(b.ledger.OfRuntime(b.ctx(), "rt", func(events.Stored) error { return enough }), enough)
	var facts []string
	b.must(b.ledger.Facts(b.ctx(), func(f storage.Fact) error {
		facts = append(facts, fmt.Sprintf("%s %s", f.RequestID, f.Status))
		if f.Time.IsZero() {
			b.t.Errorf("%s has no time", f.RequestID)
		}
		return nil
	}))
	b.same("facts", facts, []string{"q assigned", "d released", "e released", "f released"})
}

func testRepliesForgotten(b *bench) {
	b.reply(reply("rt", "a", events.StatusReleased), 0)
	b.reply(reply("other", "b", events.StatusReleased), 0)
	upTo := b.reply(reply("rt", "c", events.StatusReleased), 0)
	last := b.reply(reply("rt", "d", events.StatusReleased), 0)
	b.must(b.ledger.Forget(b.ctx(), "rt", 0))
	b.same("nothing forgotten", b.ofRuntime("rt"), []string{"a released", "c released", "d released"})
	b.must(b.ledger.Forget(b.ctx(), "rt", upTo))
	b.must(b.ledger.Forget(b.ctx(), "unknown", upTo))
	b.same("forgotten", b.statuses(b.all), []string{"b released", "d released"})
	b.must(b.ledger.Remove(b.ctx(), b.subjects.Reply("rt", "d"), last-1))
	b.must(b.ledger.Remove(b.ctx(), b.subjects.Reply("other", "b"), last))
	b.same("removed", b.statuses(b.all), []string{"d released"})
	if again := b.reply(reply("rt", "a", events.StatusAssigned), 0); again <= last {
		b.t.Errorf("sequence %d is given again", again)
	}
}

func testForeignReplies(b *bench) {
	scribble := b.raw(b.subjects.Reply("rt", "a"), "scribble")
	newer := b.raw(b.subjects.Reply("rt", "b"), `{"specversion":"1.0","type":"hap.reply.v2","id":"b","source":"/x","data":{"status":"granted"}}`)
	b.reply(reply("rt", "c", events.StatusReleased), 0)

	stored, found, err := b.ledger.Last(b.ctx(), b.subjects.Reply("rt", "a"))
	b.must(err)
	if !found || stored.Foreign == nil || stored.Foreign.Reply || stored.Sequence != scribble || stored.Foreign.Bytes != len("scribble") {
		b.t.Errorf("the scribble is %+v, %v", stored, found)
	}
	_, _, err = b.ledger.Last(b.ctx(), b.subjects.Reply("rt", "b"))
	b.wants(err, events.ErrUnknownReply)
	b.same("of rt", b.ofRuntime("rt"), []string{fmt.Sprint("foreign ", scribble), fmt.Sprint("foreign ", newer), "c released"})
	b.same("all", b.statuses(b.all), []string{"c released"})
	if len(b.foreign) != 5 { // 1 by Last, which returned the other one as an error; 2 each by OfRuntime and Each
		b.t.Errorf("told of %d foreign messages: %v", len(b.foreign), b.foreign)
	}
	b.reply(reply("rt", "a", events.StatusAssigned), scribble) // in its place
	b.same("replaced", b.ofRuntime("rt"), []string{fmt.Sprint("foreign ", newer), "c released", "a assigned"})
}

func testCopies(b *bench) {
	heard := make(chan *nats.Msg, 10)
	stop := b.Listen("_INBOX.me.*", func(msg *nats.Msg) { heard <- msg })
	b.must(b.ledger.Copy(b.ctx(), "_INBOX.you.1", reply("rt", "a", events.StatusAssigned))) // heard by none
	b.must(b.ledger.Copy(b.ctx(), "_INBOX.me.1", reply("rt", "b", events.StatusAssigned)))
	msg := <-heard
	r, err := events.DecodeReply(msg.Data)
	b.must(err)
	if r.RequestID != "b" || msg.Subject != "_INBOX.me.1" || msg.Header.Get("Content-Type") != events.ContentType {
		b.t.Errorf("heard %s on %s with %v", r.RequestID, msg.Subject, msg.Header)
	}
	if err := b.ledger.Copy(b.ctx(), b.subjects.Reply("rt", "b"), r); err == nil {
		b.t.Error("a copy went to the ledger")
	}
	stop()
	b.same("stored", b.statuses(b.all), nil)
}

func testLandscape(b *bench) {
	if _, found, err := b.ledger.Landscape(b.ctx()); found || err != nil {
		b.t.Fatalf("found %v in a new ledger, %v", found, err)
	}
	want := engine.Landscape{Cluster: "uid-1", Namespace: "garden-kyma", Resource: "credentialsbindings"}
	b.must(b.SetMetadata(b.ctx(), b.subjects.Stream(events.StreamReplies), "other", "stays"))
	b.must(b.ledger.SetLandscape(b.ctx(), want))
	got, found, err := b.ledger.Landscape(b.ctx())
	b.must(err)
	metadata, err := b.Metadata(b.ctx(), b.subjects.Stream(events.StreamReplies))
	b.must(err)
	if !found || got != want || metadata["other"] != "stays" {
		b.t.Errorf("the ledger is of %+v, %v, its metadata %v", got, found, metadata)
	}
}

// testRefusals publishes messages that no stream accepts, or not the expected one.
func testRefusals(b *bench) {
	_, err := b.Publish(b.ctx(), &nats.Msg{Subject: "elsewhere.a", Data: []byte("x")})
	b.wants(err, jetstream.ErrNoStreamResponse)
	_, err = b.Publish(b.ctx(), &nats.Msg{Subject: b.subjects.Reply("rt", "a"), Data: make([]byte, 1<<20+1)})
	b.wants(err, nats.ErrMaxPayload)
	b.wants(b.Send(&nats.Msg{Subject: "_INBOX.a", Data: make([]byte, 1<<20+1)}), nats.ErrMaxPayload)
	_, err = b.Publish(b.ctx(), &nats.Msg{
		Subject: b.subjects.Reply("rt", "a"), Header: nats.Header{jetstream.ExpectedStreamHeader: {b.subjects.Stream(events.StreamDead)}},
	})
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok || api.ErrorCode != 10060 {
		b.t.Errorf("the wrong stream: %v", err)
	}
	_, err = b.Message(b.ctx(), b.subjects.Stream(events.StreamReplies), streams.Query{Sequence: 7})
	b.wants(err, jetstream.ErrMsgNotFound)
	_, err = b.Message(b.ctx(), "HAP_UNKNOWN", streams.Query{Sequence: 7})
	b.wants(err, jetstream.ErrStreamNotFound)
	_, err = b.State(b.ctx(), "HAP_UNKNOWN")
	b.wants(err, jetstream.ErrStreamNotFound)

	// Where HAP_EVENTS has reached MaxBytes, the server refuses publishers and deletes nothing.
	large := strings.Repeat("x", 1500)
	first := b.raw(b.subjects.Resolve("a"), large)
	b.raw(b.subjects.Resolve("a"), large)
	_, err = b.Publish(b.ctx(), &nats.Msg{Subject: b.subjects.Resolve("a"), Data: []byte(large)})
	if api, ok = errors.AsType[*jetstream.APIError](err); !ok || api.ErrorCode != 10077 {
		b.t.Errorf("beyond the bound: %v", err)
	}
	b.must(b.Purge(b.ctx(), b.subjects.Stream(events.StreamEvents), b.subjects.Resolve("*"), first))
	b.raw(b.subjects.Resolve("a"), large)
}
