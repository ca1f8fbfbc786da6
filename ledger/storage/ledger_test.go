package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

func TestLedgerFirstFinalStands(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	subject := replySubject(t, "1")
	if _, found, err := ledger.Last(within(t), subject); found || err != nil {
		t.Fatalf("found %t, %v", found, err)
	}
	first := store(t, ledger, waiting("1"), 0)
	if _, err := ledger.Publish(within(t), subject, rejected("1", engine.CodeInternal), 0); !errors.Is(err, storage.ErrWrongLastSequence) {
		t.Errorf("after nothing: %v", err)
	}
	final := store(t, ledger, assigned("1"), first)
	for _, expected := range []uint64{0, first} {
		if _, err := ledger.Publish(within(t), subject, rejected("1", engine.CodeInternal), expected); !errors.Is(err, storage.ErrWrongLastSequence) {
			t.Errorf("after %d: %v", expected, err)
		}
	}
	last, found, err := ledger.Last(within(t), subject)
	if err != nil || !found || last.Sequence != final || last.Reply.Status != events.StatusAssigned || last.Subject != subject || last.Time.IsZero() {
		t.Errorf("%+v, %t, %v", last, found, err)
	}
}

// Of many workers with an answer each, one wins, and all read the same one.
func TestLedgerOneWinner(t *testing.T) {
	t.Parallel()
	server, _ := setup(t)
	subject := replySubject(t, "1")
	var workers errgroup.Group
	won, read := make([]bool, 8), make([]string, 8)
	for i := range 8 {
		ledger := storage.NewLedger(server.JetStream(), subjects(t), "/hap-worker")
		workers.Go(func() error {
			r := assigned("1")
			r.Binding.Name = fmt.Sprint("aws-", i)
			_, err := ledger.Publish(within(t), subject, r, 0)
			if err != nil && !errors.Is(err, storage.ErrWrongLastSequence) {
				return err
			}
			won[i] = err == nil
			last, _, err := ledger.Last(within(t), subject)
			if err == nil {
				read[i] = last.Reply.Binding.Name
			}
			return err
		})
	}
	if err := workers.Wait(); err != nil {
		t.Fatal(err)
	}
	if winner := slices.Index(won, true); winner < 0 || slices.Contains(won[winner+1:], true) || len(slices.Compact(read)) != 1 ||
		read[0] != fmt.Sprint("aws-", winner) {
		t.Errorf("won %v, read %v", won, read)
	}
}

// A reply is refused by its expected sequence only, never as a duplicate: it has no other headers than
// these.
func TestLedgerHeaders(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	ids, err := trace.TraceIDFromHex("0af7651916cd43dd8448eb211c80319c")
	if err != nil {
		t.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: ids, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(within(t), span)
	if _, err := ledger.Publish(ctx, replySubject(t, "1"), assigned("1"), 0); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, events.StreamReplies)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(ctx, replySubject(t, "1"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (nats.Header{
		"Content-Type":         {"application/cloudevents+json"},
		"Nats-Expected-Stream": {"HAP_REPLIES"}, "Nats-Expected-Last-Subject-Sequence": {"0"},
		"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-0100000000000000-01"},
	}); !reflect.DeepEqual(msg.Header, want) {
		t.Errorf("%v, want %v", msg.Header, want)
	}
}

func TestLedgerSeal(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	ctx := within(t)
	sealed, err := ledger.Seal(ctx, events.Event{ID: "1", RuntimeID: "rt-1"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	late, err := ledger.Publish(ctx, replySubject(t, "1"), assigned("1"), 0)
	if !errors.Is(err, storage.ErrWrongLastSequence) {
		t.Errorf("the late answer is stored at %d: %v", late, err)
	}
	store(t, ledger, assigned("1"), sealed)
	if _, err := ledger.Seal(ctx, events.Event{ID: "1", RuntimeID: "rt-1"}, sealed); !errors.Is(err, storage.ErrWrongLastSequence) {
		t.Errorf("a final reply is sealed: %v", err)
	}
	if _, err := ledger.Seal(ctx, events.Event{ID: "2", Binding: "aws.7"}, 0); err != nil {
		t.Errorf("a release: %v", err)
	}
	if _, err := ledger.Seal(ctx, events.Event{ID: "3"}, 0); err == nil {
		t.Error("nobody's reply is sealed")
	}
}

func TestLedgerEach(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	if got := readAll(t, ledger); len(got) != 0 {
		t.Errorf("an empty ledger has %v", got)
	}
	const replies = 3000
	for i := range replies {
		id := fmt.Sprint("r", i)
		data, err := events.EncodeReply(assigned(id), "/s")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.PublishAsync(replySubject(t, id), data); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	if got := readAll(t, ledger); len(got) != replies {
		t.Errorf("%d of %d", len(got), replies)
	}
	// The end of the stream is gone: its last sequence names no message.
	if err := ledger.Forget(within(t), fmt.Sprint("rt-r", replies-1), replies); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, ledger); len(got) != replies-1 {
		t.Errorf("%d after one was forgotten", len(got))
	}
}

func readAll(t *testing.T, ledger *storage.Ledger) map[string]events.Status {
	t.Helper()
	found := map[string]events.Status{}
	if err := ledger.Each(within(t), func(s events.Stored) error {
		found[s.Reply.RequestID] = s.Reply.Status
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// A reply that is replaced during a reading is not missed, although it moves from ahead of the reader
// to behind the old end.
func TestLedgerEachWhileReplaced(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	last := uint64(0)
	for i := range 20 {
		last = store(t, ledger, waiting(fmt.Sprint("r", i)), 0)
	}
	found := map[string]events.Status{}
	err := ledger.Each(within(t), func(s events.Stored) error {
		if len(found) == 0 {
			store(t, ledger, assigned("r19"), last)
		}
		found[s.Reply.RequestID] = s.Reply.Status
		return nil
	})
	if err != nil || len(found) != 20 || found["r19"] != events.StatusAssigned {
		t.Errorf("%v, %v", found, err)
	}
}

func TestLedgerEachStops(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	store(t, ledger, waiting("1"), 0)
	store(t, ledger, waiting("2"), 0)
	enough := errors.New("enough")
	visits := 0
	if err := ledger.Each(within(t), func(events.Stored) error { visits++; return enough }); !errors.Is(err, enough) || visits != 1 {
		t.Errorf("%d visits, %v", visits, err)
	}
	ctx, cancel := context.WithCancel(within(t))
	if err := ledger.Each(ctx, func(events.Stored) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := js.Publish(within(t), replySubject(t, "3"), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, ledger); len(got) != 2 {
		t.Errorf("beside a foreign message: %v", got)
	}
}

// Unsettled visits every unacknowledged event, delivered or not.
func TestLedgerUnsettled(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ctx := within(t)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for i := range 4 {
		data, err := events.EncodeEvent(provision(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: "hap.v1.provision.ga-1", Data: data,
			Header: nats.Header{"traceparent": {parent}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: "hap.v1.resolve.rt-9", Data: []byte("x"),
		Header: nats.Header{nats.MsgIdHdr: {"resolve/9"}}}); err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(ctx, events.StreamEvents, events.ConsumerWorker)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := consumer.Fetch(2)
	if err != nil {
		t.Fatal(err)
	}
	if err := (<-batch.Messages()).DoubleAck(ctx); err != nil { // event 0; event 1 stays in work
		t.Fatal(err)
	}
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	var seen []string
	err = ledger.Unsettled(ctx, func(e events.Event, sequence uint64, fault error) error {
		seen = append(seen, fmt.Sprint(sequence, e.Type, e.ID, e.RuntimeID, e.Traceparent, fault != nil))
		return nil
	})
	want := "2provision1rt-1parentfalse 3provision2rt-2parentfalse 4provision3rt-3parentfalse 5resolve9rt-9true"
	if got := strings.ReplaceAll(strings.ReplaceAll(strings.Join(seen, "|"), " ", ""), parent, "parent"); err != nil || got != strings.ReplaceAll(want, " ", "|") {
		t.Errorf("%s, %v", got, err)
	}
	enough := errors.New("enough")
	if err := ledger.Unsettled(ctx, func(events.Event, uint64, error) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
}

func TestLedgerCopy(t *testing.T) {
	t.Parallel()
	server, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	nc := server.Connect()
	inbox := nc.NewInbox()
	received, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Copy(within(t), inbox, assigned("1")); err != nil {
		t.Fatal(err)
	}
	msg, err := received.NextMsgWithContext(within(t))
	if err != nil {
		t.Fatal(err)
	}
	want, err := events.EncodeReply(assigned("1"), "/hap-worker")
	if err != nil || !bytes.Equal(msg.Data, want) || msg.Header.Get("Content-Type") != events.ContentType {
		t.Errorf("%s, %v, %v", msg.Data, msg.Header, err)
	}
	if err := ledger.Copy(within(t), "hap.v1.provision.ga-1", assigned("1")); err == nil {
		t.Error("the copy goes to a subject that is no inbox")
	}
}

// The read goes to the leader even where an operator has allowed direct reads.
func TestLedgerReadsFromTheLeader(t *testing.T) {
	t.Parallel()
	server, js := setup(t)
	changed := config(t, js, events.StreamReplies)
	changed.AllowDirect = true
	if _, err := js.UpdateStream(within(t), changed); err != nil {
		t.Fatal(err)
	}
	watcher := server.Connect()
	direct, err := watcher.SubscribeSync("$JS.API.DIRECT.GET.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := watcher.Flush(); err != nil {
		t.Fatal(err)
	}
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	store(t, ledger, assigned("1"), 0)
	if _, found, err := ledger.Last(within(t), replySubject(t, "1")); err != nil || !found {
		t.Errorf("%t, %v", found, err)
	}
	if err := watcher.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := direct.Pending(); err != nil || n != 0 {
		t.Errorf("%d direct reads, %v", n, err)
	}
}

func TestLedgerWithAPIPrefix(t *testing.T) {
	t.Parallel()
	server, _ := setup(t)
	for _, prefix := range []string{"$JS.API", "$JS.API."} {
		js, err := jetstream.NewWithAPIPrefix(server.Connect(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		if _, found, err := storage.NewLedger(js, subjects(t), "/s").Last(within(t), replySubject(t, "x")); found || err != nil {
			t.Errorf("%s: %t, %v", prefix, found, err)
		}
	}
}

func TestLedgerWithoutServer(t *testing.T) {
	t.Parallel()
	server, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	server.Stop()
	ctx, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
	defer cancel()
	if _, _, err := ledger.Last(ctx, replySubject(t, "1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("last: %v", err)
	}
	if _, err := ledger.Publish(ctx, replySubject(t, "1"), assigned("1"), 0); err == nil || errors.Is(err, storage.ErrWrongLastSequence) {
		t.Errorf("publish: %v", err)
	}
	if err := ledger.Each(ctx, func(events.Stored) error { return nil }); err == nil {
		t.Error("each: no error")
	}
	if err := ledger.Unsettled(ctx, func(events.Event, uint64, error) error { return nil }); err == nil {
		t.Error("unsettled: no error")
	}
	if err := ledger.Forget(ctx, "rt-1", 1); err == nil {
		t.Error("forget: no error")
	}
	if _, err := ledger.Backlog(ctx); err == nil {
		t.Error("backlog: no error")
	}
}
