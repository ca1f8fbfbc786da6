package events

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrWrongLastSequence says that a reply was not stored, because its subject has
// another last sequence than expected: somebody else's reply came first. Read it
// with Ledger.Last.
var ErrWrongLastSequence = errors.New("another reply was stored first")

// Stored is a reply in the ledger.
type Stored struct {
	Reply    Reply
	Subject  string
	Sequence uint64 // of the stream
	Time     time.Time
}

// Ledger is the stream of replies as the workers use it: the first final reply to
// a request stands. See docs/messages.md.
type Ledger struct {
	js       jetstream.JetStream
	source   string
	subjects Subjects
}

// NewLedger gives the ledger under the subjects. Source is the CloudEvents source
// of the replies that it publishes.
func NewLedger(js jetstream.JetStream, subjects Subjects, source string) *Ledger {
	return &Ledger{js: js, source: source, subjects: subjects}
}

func (l *Ledger) stream() string { return l.subjects.Stream(StreamReplies) }

// Last reads the reply stored on a subject, from the stream's leader: what it says
// is never older than a Publish that was refused. Not found is no error.
func (l *Ledger) Last(ctx context.Context, subject string) (stored Stored, found bool, err error) {
	msg, err := getMessage(ctx, l.js, l.stream(), messageRequest{LastFor: subject})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Stored{}, false, nil
	}
	if err != nil {
		return Stored{}, false, fmt.Errorf("reading the reply on %s: %w", subject, err)
	}
	stored, err = storedReply(msg.Subject, msg.Sequence, msg.Time, msg.Data)
	return stored, err == nil, err
}

// OfRuntime visits the replies of one runtime in the order of the stream, sealed ones
// included, each read from the leader, but none that is stored after it has found the
// first. It ends with the first error of visit.
func (l *Ledger) OfRuntime(ctx context.Context, runtimeID string, visit func(Stored) error) error {
	return eachMessage(ctx, l.js, l.stream(), l.subjects.RuntimeReplies(runtimeID), func(msg *storedMessage) error {
		stored, err := storedReply(msg.Subject, msg.Sequence, msg.Time, msg.Data)
		if err != nil {
			return err
		}
		return visit(stored)
	})
}

// Publish stores a reply, if the last sequence of its subject is still expected (0:
// none), and returns once the stream has it. Otherwise the error is
// ErrWrongLastSequence. After any other error, such as a time-out while the
// connection was away, the reply may have been stored or not: read with Last.
func (l *Ledger) Publish(ctx context.Context, subject string, r Reply, expected uint64) (sequence uint64, err error) {
	data, err := EncodeReply(r, l.source)
	if err != nil {
		return 0, err
	}
	ctx, cancel := bounded(ctx, l.js)
	defer cancel()
	msg := message(ctx, subject, data)
	// As options they would be allocated only to become headers.
	msg.Header[jetstream.ExpectedStreamHeader] = []string{l.stream()}
	msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expected, 10)}
	ack, err := l.js.PublishMsg(ctx, msg)
	switch {
	case wrongLastSequence(err):
		return 0, fmt.Errorf("reply on %s after sequence %d: %w", subject, expected, ErrWrongLastSequence)
	case err != nil:
		return 0, fmt.Errorf("storing the reply on %s: %w", subject, err)
	}
	return ack.Sequence, nil
}

// Seal stores a reply that is none, so that whoever decided this event before and
// comes late with the answer is refused and decides again. Losing to a final
// reply, ErrWrongLastSequence, is fine.
func (l *Ledger) Seal(ctx context.Context, e Event, expected uint64) (sequence uint64, err error) {
	subject := e.ReplySubject(l.subjects)
	if subject == "" {
		return 0, fmt.Errorf("event %s: too little is known to seal its reply", quote(e.ID))
	}
	return l.Publish(ctx, subject, Reply{RequestID: e.ID, RuntimeID: e.RuntimeID, Status: StatusSealed}, expected)
}

// Copy sends the plain copy of a stored reply that a publisher asked for with
// replyTo. Nobody needs to be there to receive it.
func (l *Ledger) Copy(ctx context.Context, replyTo string, r Reply) error {
	if !inbox(replyTo) {
		return fmt.Errorf("reply to %s is not copied: %s is no inbox", r.RequestID, quote(replyTo))
	}
	data, err := EncodeReply(r, l.source)
	if err != nil {
		return err
	}
	if err := l.js.Conn().PublishMsg(message(ctx, replyTo, data)); err != nil {
		return fmt.Errorf("copying the reply to %s: %w", replyTo, err)
	}
	return nil
}

// Forget deletes the replies of a runtime up to a sequence of the stream, in one
// operation; newer ones stay. It is no error where there are none.
func (l *Ledger) Forget(ctx context.Context, runtimeID string, upTo uint64) error {
	if err := l.purge(ctx, l.subjects.RuntimeReplies(runtimeID), upTo); err != nil {
		return fmt.Errorf("deleting the replies of runtime %s: %w", runtimeID, err)
	}
	return nil
}

// Remove deletes the reply on a subject up to a sequence of the stream; a newer one
// stays. One that is not there is no error.
func (l *Ledger) Remove(ctx context.Context, subject string, upTo uint64) error {
	if err := l.purge(ctx, subject, upTo); err != nil {
		return fmt.Errorf("deleting the reply on %s: %w", subject, err)
	}
	return nil
}

func (l *Ledger) purge(ctx context.Context, subject string, upTo uint64) error {
	ctx, cancel := bounded(ctx, l.js)
	defer cancel()
	stream, err := l.js.Stream(ctx, l.stream())
	if err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(upTo+1))
}

// wrongLastSequence knows both codes that servers use for it.
func wrongLastSequence(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

func storedReply(subject string, sequence uint64, at time.Time, data []byte) (Stored, error) {
	r, err := DecodeReply(data)
	if err != nil {
		return Stored{}, notReply(subject, sequence, err)
	}
	return Stored{Reply: r, Subject: subject, Sequence: sequence, Time: at}, nil
}

func notReply(subject string, sequence uint64, err error) error {
	return fmt.Errorf("sequence %d of %s, on %s, is no reply: %w; delete it from the stream if it is foreign",
		sequence, StreamReplies, subject, err)
}

// contentTypes is shared by all messages: nobody changes the values of a header.
var contentTypes = []string{ContentType}

// message is a CloudEvent on its way, with the trace context of ctx.
func message(ctx context.Context, subject string, data []byte) *nats.Msg {
	msg := &nats.Msg{Subject: subject, Header: nats.Header{"Content-Type": contentTypes}, Data: data}
	inject(ctx, msg.Header)
	return msg
}
