// Package storage keeps what workers store on NATS JetStream: the ledger of replies and the waiting
// room. It defines the streams, and creates them.
package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/object"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/tracing"

	"github.com/hap-worker/hap-worker/events"
)

// ErrWrongLastSequence says that a reply or a record was not stored, because its subject
// has another last sequence than expected: mostly, another worker's message came first.
// Read it with Ledger.Last or Ledger.Epochs.
var ErrWrongLastSequence = errors.New("another reply was stored first")

// ErrUnstorable says that a reply or a waiting request cannot be stored because of its content: it is
// larger than NATS or the stream accepts, or cannot be encoded. A retry would fail, too.
var ErrUnstorable = errors.New("it cannot be stored")

// Ledger is the stream of replies as the workers use it: the first final reply to
// a request stands. See docs/messages.md.
type Ledger struct {
	foreigners
	streams  streams.Streams
	source   string
	subjects events.Subjects
	record   atomic.Pointer[readRecord]
}

// NewLedger returns the ledger under the subjects. Source is the CloudEvents source
// of the replies that it publishes.
func NewLedger(js jetstream.JetStream, subjects events.Subjects, source string) *Ledger {
	return NewLedgerOn(streams.New(js), subjects, source)
}

// NewLedgerOn returns the ledger that is kept in these streams.
func NewLedgerOn(streams streams.Streams, subjects events.Subjects, source string) *Ledger {
	return &Ledger{streams: streams, source: source, subjects: subjects}
}

func (l *Ledger) stream() string { return l.subjects.Stream(events.StreamReplies) }

// Last reads the reply on a subject from the stream's leader: after a refused Publish, it finds the
// reply that came first. found is false if there is none. A message that is no reply comes as
// events.Stored.Foreign, but one that may be a final reply of a newer version is the error
// events.ErrUnknownReply.
func (l *Ledger) Last(ctx context.Context, subject string) (stored events.Stored, found bool, err error) {
	return l.one(ctx, streams.Query{LastFor: subject})
}

func (l *Ledger) one(ctx context.Context, q streams.Query) (stored events.Stored, found bool, err error) {
	msg, err := l.streams.Message(ctx, l.stream(), q)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return events.Stored{}, false, nil
	}
	if err != nil {
		return events.Stored{}, false, fmt.Errorf("reading the reply on %s: %w", cmp.Or(q.LastFor, fmt.Sprint("sequence ", q.Sequence)), err)
	}
	stored, err = l.storedReply(msg)
	if found, ok := events.ForeignOf(err); ok && !found.Reply {
		return events.Stored{Foreign: found, Subject: msg.Subject, Sequence: msg.Sequence, Time: msg.Time}, true, l.pass(err)
	}
	return stored, err == nil, err
}

func (l *Ledger) storedReply(msg streams.Message) (events.Stored, error) {
	return events.ReadStored(l.stream(), msg)
}

// OfRuntime visits the replies to the requests for one runtime in stream order, sealed ones included, and reads
// each from the leader. It may leave out replies that are stored after it has found the first. An unreadable
// message comes as events.Stored.Foreign. It returns the first error of visit.
func (l *Ledger) OfRuntime(ctx context.Context, runtimeID string, visit func(events.Stored) error) error {
	return l.from(ctx, 1, l.subjects.RuntimeReplies(runtimeID), visit)
}

// At reads the reply at a sequence of the ledger, in the same way as Last. found is false once a later
// reply has replaced it or a purge has deleted it.
func (l *Ledger) At(ctx context.Context, sequence uint64) (stored events.Stored, found bool, err error) {
	return l.one(ctx, streams.Query{Sequence: sequence})
}

// After visits the replies that were stored after a sequence of the ledger, in the same way as
// OfRuntime. It reads them one by one from the leader: use it near the end of the stream.
func (l *Ledger) After(ctx context.Context, sequence uint64, visit func(events.Stored) error) error {
	return l.from(ctx, sequence+1, l.subjects.Replies(), visit)
}

func (l *Ledger) from(ctx context.Context, sequence uint64, filter string, visit func(events.Stored) error) error {
	return streams.Each(ctx, l.streams, l.stream(), sequence, filter, func(msg streams.Message) error {
		return visit(l.whatever(msg))
	})
}

// End returns the highest sequence that the ledger has assigned.
func (l *Ledger) End(ctx context.Context) (sequence uint64, err error) {
	state, err := l.streams.State(ctx, l.stream())
	return state.LastSeq, err
}

// Publish stores a reply if expected is the last sequence of its subject (0: no reply yet), and
// returns once the stream has it. Errors: ErrWrongLastSequence if another reply came first,
// ErrUnstorable if this reply can never be stored. After any other error, such as a time-out during a
// reconnect, the reply may or may not be stored: read it with Last.
func (l *Ledger) Publish(ctx context.Context, subject string, r events.Reply, expected uint64) (sequence uint64, err error) {
	data, err := events.EncodeReply(r, l.source)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnstorable, err)
	}
	msg := message(ctx, subject, data)
	msg.Header[jetstream.ExpectedStreamHeader] = []string{l.stream()}
	msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expected, 10)}
	ack, err := l.streams.Publish(ctx, msg)
	switch {
	case streams.WrongLastSequence(err):
		return 0, fmt.Errorf("storing the reply on %s, expected last sequence %d: %w", subject, expected, ErrWrongLastSequence)
	case streams.Refused(err):
		return 0, fmt.Errorf("the reply on %s has %d bytes: %w: %w", subject, len(data), ErrUnstorable, err)
	case err != nil:
		return 0, fmt.Errorf("storing the reply on %s: %w", subject, err)
	}
	return ack.Sequence, nil
}

// Seal stores a sealed reply on the reply subject of an event. A sealed reply is no answer: it only raises
// the last sequence of the subject, so that a worker that decided the event before the Seal cannot publish
// its answer afterwards, and decides again. expected and errors are those of Publish. ErrWrongLastSequence is
// harmless if a final reply came first. An event whose reply subject is unknown is an error, too.
func (l *Ledger) Seal(ctx context.Context, e events.Event, expected uint64) (sequence uint64, err error) {
	subject := e.ReplySubject(l.subjects)
	if subject == "" {
		return 0, fmt.Errorf("event %s: too little is known to seal its reply", object.Quote(e.ID))
	}
	return l.Publish(ctx, subject, events.Reply{RequestID: e.ID, RuntimeID: e.RuntimeID, Status: events.StatusSealed}, expected)
}

// Copy sends a reply to the inbox that the publisher of the request named in replyTo, and stores nothing.
// It is no error if the inbox has no subscriber. It is an error if replyTo is no inbox (events.IsInbox), and
// ErrUnstorable if the reply is larger than NATS accepts.
func (l *Ledger) Copy(ctx context.Context, replyTo string, r events.Reply) error {
	if !events.IsInbox(replyTo) {
		return fmt.Errorf("reply to %s is not copied: %s is no inbox", r.RequestID, object.Quote(replyTo))
	}
	data, err := events.EncodeReply(r, l.source)
	if err != nil {
		return err
	}
	err = l.streams.Send(message(ctx, replyTo, data))
	if streams.Refused(err) {
		return fmt.Errorf("the copy of the reply for %s has %d bytes: %w: %w", replyTo, len(data), ErrUnstorable, err)
	}
	if err != nil {
		return fmt.Errorf("copying the reply to %s: %w", replyTo, err)
	}
	return nil
}

// Forget deletes the replies of a runtime up to a sequence of the stream, in one operation; newer ones
// stay. It is no error if there are none.
func (l *Ledger) Forget(ctx context.Context, runtimeID string, upTo uint64) error {
	if err := l.streams.Purge(ctx, l.stream(), l.subjects.RuntimeReplies(runtimeID), upTo); err != nil {
		return fmt.Errorf("deleting the replies of runtime %s: %w", runtimeID, err)
	}
	return nil
}

// Remove deletes the reply on a subject up to a sequence of the stream; a newer one
// stays. It is no error if there is none.
func (l *Ledger) Remove(ctx context.Context, subject string, upTo uint64) error {
	if err := l.streams.Purge(ctx, l.stream(), subject, upTo); err != nil {
		return fmt.Errorf("deleting the reply on %s: %w", subject, err)
	}
	return nil
}

// message returns the NATS message for a CloudEvent, with the trace context of ctx.
func message(ctx context.Context, subject string, data []byte) *nats.Msg {
	msg := events.NewMessage(subject, data)
	tracing.Inject(ctx, msg.Header)
	return msg
}
