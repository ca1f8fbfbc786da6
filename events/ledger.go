package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/streams"
)

// ErrWrongLastSequence says that a reply was not stored, because its subject has
// another last sequence than expected: another worker's reply came first. Read it
// with Ledger.Last.
var ErrWrongLastSequence = errors.New("another reply was stored first")

// ErrUnstorable says that a reply or a waiting request cannot be stored for its own sake: it
// is longer than NATS or the stream takes, or cannot be written. It could not either if it
// were tried again.
var ErrUnstorable = errors.New("it cannot be stored")

// Stored is a reply in the ledger.
type Stored struct {
	Reply Reply
	// Foreign is set where the message is none, and then Reply is empty: it is not
	// final, and a reply may be stored in its place.
	Foreign  *Foreign
	Subject  string
	Sequence uint64 // of the stream
	Time     time.Time
}

// Ledger is the stream of replies as the workers use it: the first final reply to
// a request stands. See docs/messages.md.
type Ledger struct {
	foreigners
	streams  streams.Streams
	source   string
	subjects Subjects
	record   atomic.Pointer[readRecord]
}

// NewLedger returns the ledger under the subjects. Source is the CloudEvents source
// of the replies that it publishes.
func NewLedger(js jetstream.JetStream, subjects Subjects, source string) *Ledger {
	return NewLedgerOn(streams.New(js), subjects, source)
}

// NewLedgerOn returns the ledger that is kept in these streams.
func NewLedgerOn(streams streams.Streams, subjects Subjects, source string) *Ledger {
	return &Ledger{streams: streams, source: source, subjects: subjects}
}

func (l *Ledger) stream() string { return l.subjects.Stream(StreamReplies) }

// Last reads the reply stored on a subject, from the stream's leader: what it says
// is never older than a Publish that was refused. Not found is no error. A message that
// is no reply is found too, as Stored.Foreign; one that may be a final reply of a newer
// version is an error, ErrUnknownReply.
func (l *Ledger) Last(ctx context.Context, subject string) (stored Stored, found bool, err error) {
	return l.one(ctx, streams.Query{LastFor: subject})
}

func (l *Ledger) one(ctx context.Context, q streams.Query) (stored Stored, found bool, err error) {
	msg, err := l.streams.Message(ctx, l.stream(), q)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Stored{}, false, nil
	}
	if err != nil {
		return Stored{}, false, fmt.Errorf("reading the reply on %s: %w", cmp.Or(q.LastFor, fmt.Sprint("sequence ", q.Sequence)), err)
	}
	stored, err = l.storedReply(msg)
	if found, ok := ForeignOf(err); ok && !found.Reply {
		return Stored{Foreign: found, Subject: msg.Subject, Sequence: msg.Sequence, Time: msg.Time}, true, l.pass(err)
	}
	return stored, err == nil, err
}

func (l *Ledger) storedReply(msg streams.Message) (Stored, error) {
	return ReadStored(l.stream(), msg)
}

// OfRuntime visits the replies of one runtime in the order of the stream, sealed ones
// included, each read from the leader, but none that is stored after it has found the
// first. What cannot be read comes as Stored.Foreign. It ends with the first error of visit.
func (l *Ledger) OfRuntime(ctx context.Context, runtimeID string, visit func(Stored) error) error {
	return l.from(ctx, 1, l.subjects.RuntimeReplies(runtimeID), visit)
}

// At reads the reply at a sequence of the ledger, as Last does. It is not found once another
// one has taken its place, or it was purged.
func (l *Ledger) At(ctx context.Context, sequence uint64) (stored Stored, found bool, err error) {
	return l.one(ctx, streams.Query{Sequence: sequence})
}

// After visits the replies that were stored after a sequence of the ledger, in the same
// way as OfRuntime. It reads them one by one: it is for the end of the stream.
func (l *Ledger) After(ctx context.Context, sequence uint64, visit func(Stored) error) error {
	return l.from(ctx, sequence+1, l.subjects.Replies(), visit)
}

func (l *Ledger) from(ctx context.Context, sequence uint64, filter string, visit func(Stored) error) error {
	return streams.Each(ctx, l.streams, l.stream(), sequence, filter, func(msg streams.Message) error {
		return visit(l.whatever(msg))
	})
}

// End returns the highest sequence that the ledger ever gave a reply.
func (l *Ledger) End(ctx context.Context) (sequence uint64, err error) {
	state, err := l.streams.State(ctx, l.stream())
	return state.LastSeq, err
}

// Publish stores a reply, if the last sequence of its subject is still expected (0:
// none), and returns once the stream has it. Otherwise the error is
// ErrWrongLastSequence. ErrUnstorable: this reply never will be. After any other error, such as a time-out while the
// connection was away, the reply may have been stored or not: read with Last.
func (l *Ledger) Publish(ctx context.Context, subject string, r Reply, expected uint64) (sequence uint64, err error) {
	data, err := EncodeReply(r, l.source)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnstorable, err)
	}
	msg := message(ctx, subject, data)
	msg.Header[jetstream.ExpectedStreamHeader] = []string{l.stream()}
	msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expected, 10)}
	ack, err := l.streams.Publish(ctx, msg)
	switch {
	case streams.WrongLastSequence(err):
		return 0, fmt.Errorf("reply on %s after sequence %d: %w", subject, expected, ErrWrongLastSequence)
	case streams.Refused(err):
		return 0, fmt.Errorf("the reply on %s has %d bytes: %w: %w", subject, len(data), ErrUnstorable, err)
	case err != nil:
		return 0, fmt.Errorf("storing the reply on %s: %w", subject, err)
	}
	return ack.Sequence, nil
}

// Seal stores a reply that is none, so that a worker that decided this event
// before and comes late with the answer is refused and decides again. Losing to a final
// reply, ErrWrongLastSequence, is fine.
func (l *Ledger) Seal(ctx context.Context, e Event, expected uint64) (sequence uint64, err error) {
	subject := e.ReplySubject(l.subjects)
	if subject == "" {
		return 0, fmt.Errorf("event %s: too little is known to seal its reply", quote(e.ID))
	}
	return l.Publish(ctx, subject, Reply{RequestID: e.ID, RuntimeID: e.RuntimeID, Status: StatusSealed}, expected)
}

// Copy sends the plain copy of a stored reply that a publisher asked for with
// replyTo. No receiver needs to be there.
func (l *Ledger) Copy(ctx context.Context, replyTo string, r Reply) error {
	if !inbox(replyTo) {
		return fmt.Errorf("reply to %s is not copied: %s is no inbox", r.RequestID, quote(replyTo))
	}
	data, err := EncodeReply(r, l.source)
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

// Forget deletes the replies of a runtime up to a sequence of the stream, in one
// operation; newer ones stay. It is no error where there are none.
func (l *Ledger) Forget(ctx context.Context, runtimeID string, upTo uint64) error {
	if err := l.streams.Purge(ctx, l.stream(), l.subjects.RuntimeReplies(runtimeID), upTo); err != nil {
		return fmt.Errorf("deleting the replies of runtime %s: %w", runtimeID, err)
	}
	return nil
}

// Remove deletes the reply on a subject up to a sequence of the stream; a newer one
// stays. One that is not there is no error.
func (l *Ledger) Remove(ctx context.Context, subject string, upTo uint64) error {
	if err := l.streams.Purge(ctx, l.stream(), subject, upTo); err != nil {
		return fmt.Errorf("deleting the reply on %s: %w", subject, err)
	}
	return nil
}

// ReadStored reads a message of a ledger. Its error is a *Foreign.
func ReadStored(stream string, msg streams.Message) (Stored, error) {
	r, err := DecodeReply(msg.Data)
	if err != nil {
		return Stored{}, NewForeign(stream, msg, err)
	}
	return Stored{Reply: r, Subject: msg.Subject, Sequence: msg.Sequence, Time: msg.Time}, nil
}

// contentTypes is shared by all messages: no code changes the values of a header.
var contentTypes = []string{ContentType}

// message is a CloudEvent on its way, with the trace context of ctx.
func message(ctx context.Context, subject string, data []byte) *nats.Msg {
	msg := &nats.Msg{Subject: subject, Header: nats.Header{"Content-Type": contentTypes}, Data: data}
	inject(ctx, msg.Header)
	return msg
}
