package events

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The headers of a waiting request, beside those of the event.
const (
	HeaderDeadline = "Hap-Deadline" // when the waiting ends, RFC 3339
	HeaderWaiting  = "Hap-Waiting"  // the WaitingReason
)

// WaitingRequest is a provision that waits, as HAP_WAITING keeps it.
type WaitingRequest struct {
	Event    Event
	Pool     string
	Reason   WaitingReason
	Deadline time.Time
	Since    time.Time // it began to wait
	Subject  string
}

// WaitingRoom is the stream of the requests that wait. It has one message per
// request and is read without a consumer, by every worker.
type WaitingRoom struct {
	js       jetstream.JetStream
	subjects Subjects
}

// NewWaitingRoom gives the waiting requests under the subjects.
func NewWaitingRoom(js jetstream.JetStream, subjects Subjects) *WaitingRoom {
	return &WaitingRoom{js: js, subjects: subjects}
}

// Enter stores a request and returns once the stream has it. One that is there
// already stays as it is, with the deadline that it was given first.
func (r *WaitingRoom) Enter(ctx context.Context, w WaitingRequest) error {
	data, err := EncodeEvent(w.Event)
	if err != nil {
		return err
	}
	msg := message(ctx, r.Subject(w.Pool, w.Event), data)
	msg.Header[HeaderDeadline] = []string{w.Deadline.UTC().Format(time.RFC3339Nano)}
	msg.Header[HeaderWaiting] = []string{string(w.Reason)}
	_, err = r.js.PublishMsg(ctx, msg, jetstream.WithExpectStream(r.subjects.Stream(StreamWaiting)), jetstream.WithExpectLastSequencePerSubject(0))
	if err != nil && !wrongLastSequence(err) {
		return fmt.Errorf("storing the waiting request %s: %w", quote(w.Event.ID), err)
	}
	return nil
}

// Subject is where a request for a pool is kept.
func (r *WaitingRoom) Subject(pool string, e Event) string {
	return r.subjects.Waiting(pool, e.Provision.GlobalAccountID, e.RuntimeID, e.ID)
}

// Leave removes a request; one that is not there is no error.
func (r *WaitingRoom) Leave(ctx context.Context, subject string) error {
	ctx, cancel := bounded(ctx, r.js)
	defer cancel()
	stream, err := r.js.Stream(ctx, r.subjects.Stream(StreamWaiting))
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	if err != nil {
		return fmt.Errorf("removing the waiting request %s: %w", subject, err)
	}
	return nil
}

// Each visits the requests that wait, oldest first, but none that comes after it has
// found the first. It ends with the first error of visit.
func (r *WaitingRoom) Each(ctx context.Context, visit func(WaitingRequest) error) error {
	return r.each(ctx, r.subjects.AllWaiting(), visit)
}

// OfRuntime visits the requests of one runtime, oldest first.
func (r *WaitingRoom) OfRuntime(ctx context.Context, runtimeID string, visit func(WaitingRequest) error) error {
	return r.each(ctx, r.subjects.RuntimeWaiting(runtimeID), visit)
}

func (r *WaitingRoom) each(ctx context.Context, filter string, visit func(WaitingRequest) error) error {
	return eachMessage(ctx, r.js, r.subjects.Stream(StreamWaiting), filter, func(msg *storedMessage) error {
		w, err := r.read(msg)
		if err != nil {
			return err
		}
		return visit(w)
	})
}

func (r *WaitingRoom) read(msg *storedMessage) (WaitingRequest, error) {
	address, err := r.subjects.ParseWaiting(msg.Subject)
	if err != nil {
		return WaitingRequest{}, err
	}
	header := msg.header()
	event, err := Decode(r.subjects.Provision(address.GlobalAccountID), header, msg.Data)
	if err != nil {
		return WaitingRequest{}, fmt.Errorf("waiting request %s: %w", msg.Subject, err)
	}
	return WaitingRequest{
		Event: event, Pool: address.Pool, Subject: msg.Subject, Since: msg.Time,
		Reason: WaitingReason(headerValue(header, HeaderWaiting)), Deadline: deadline(header, msg.Time),
	}, nil
}

// deadline is the header's; a message without one has waited long enough.
func deadline(header nats.Header, fallback time.Time) time.Time {
	at, err := time.Parse(time.RFC3339Nano, headerValue(header, HeaderDeadline))
	if err != nil {
		return fallback
	}
	return at
}
