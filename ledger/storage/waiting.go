package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/object"
	"github.com/hap-worker/hap-worker/events/streams"

	"github.com/hap-worker/hap-worker/events"
)

// The headers of a waiting request, beside those of the event.
const (
	HeaderDeadline = "Hap-Deadline" // when the waiting ends, RFC 3339
	HeaderWaiting  = "Hap-Waiting"  // the WaitingReason
	HeaderSince    = "Hap-Since"    // when the request began to wait, if that was for another pool, RFC 3339
)

// WaitingRequest is a provision that waits, as HAP_WAITING keeps it. Enter ignores Entered, Subject and Sequence,
// which are set on a request that was read.
type WaitingRequest struct {
	Event    events.Event
	Pool     string
	Reason   events.WaitingReason
	Deadline time.Time
	Since    time.Time // when the request began to wait; for Enter, zero means now
	Entered  time.Time // when the request was stored for this pool
	Subject  string
	Sequence uint64 // of the stream
}

// WaitingRoom is the stream of the requests that wait. It has one message for each request and pool, and
// every worker reads it without a consumer.
type WaitingRoom struct {
	foreigners
	streams  streams.Streams
	subjects events.Subjects
}

// NewWaitingRoom returns the waiting requests under the subjects.
func NewWaitingRoom(js jetstream.JetStream, subjects events.Subjects) *WaitingRoom {
	return NewWaitingRoomOn(streams.New(js), subjects)
}

// NewWaitingRoomOn returns the waiting room that is kept in these streams.
func NewWaitingRoomOn(streams streams.Streams, subjects events.Subjects) *WaitingRoom {
	return &WaitingRoom{streams: streams, subjects: subjects}
}

// Enter stores a request, and returns the deadline in force once the stream has it: w.Deadline or, if the
// request is already stored for this pool, the stored one, and the stored request stays unchanged. If the
// subject holds an unreadable message, Enter stores the request beside it, and Leave removes both. Errors:
// ErrUnstorable for a request that can never be stored.
func (r *WaitingRoom) Enter(ctx context.Context, w WaitingRequest) (deadline time.Time, err error) {
	data, err := events.EncodeKept(w.Event)
	if err != nil {
		return w.Deadline, fmt.Errorf("%w: %w", ErrUnstorable, err)
	}
	msg := message(ctx, r.Subject(w.Pool, w.Event), data)
	msg.Header[HeaderDeadline] = []string{w.Deadline.UTC().Format(time.RFC3339Nano)}
	msg.Header[HeaderWaiting] = []string{string(w.Reason)}
	if !w.Since.IsZero() {
		msg.Header[HeaderSince] = []string{w.Since.UTC().Format(time.RFC3339Nano)}
	}
	msg.Header[jetstream.ExpectedStreamHeader] = []string{r.stream()}
	for expected := uint64(0); ; {
		msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expected, 10)}
		_, err = r.streams.Publish(ctx, msg)
		if err == nil {
			return w.Deadline, nil
		}
		if streams.Refused(err) {
			return w.Deadline, fmt.Errorf("the waiting request %s has %d bytes: %w: %w", object.Quote(w.Event.ID), len(data), ErrUnstorable, err)
		}
		if !streams.WrongLastSequence(err) {
			return w.Deadline, fmt.Errorf("storing the waiting request %s: %w", object.Quote(w.Event.ID), err)
		}
		msg, err := r.streams.Message(ctx, r.stream(), streams.Query{LastFor: msg.Subject})
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return w.Deadline, fmt.Errorf("storing the waiting request %s: %w", object.Quote(w.Event.ID), err)
		}
		expected = msg.Sequence // 0 if the message is gone by now
		if expected == 0 {
			continue
		}
		stored, err := r.read(msg)
		if err == nil {
			return stored.Deadline, nil
		}
		if err := r.pass(err); err != nil {
			return w.Deadline, err
		}
	}
}

func (r *WaitingRoom) stream() string { return r.subjects.Stream(events.StreamWaiting) }

// Subject returns the subject of a request that waits for a pool.
func (r *WaitingRoom) Subject(pool string, e events.Event) string {
	return r.subjects.Waiting(pool, e.Provision.GlobalAccountID, e.RuntimeID, e.ID)
}

// Leave removes all messages on the subject of a request. It is no error if there is none.
func (r *WaitingRoom) Leave(ctx context.Context, subject string) error {
	if err := r.streams.Purge(ctx, r.stream(), subject, streams.Everything); err != nil {
		return fmt.Errorf("removing the waiting request %s: %w", subject, err)
	}
	return nil
}

// Each visits the requests that wait, oldest first. It may leave out those that are stored after it has found
// the first. It skips a message that it cannot read and reports it to OnForeign. It returns the first
// error of visit.
func (r *WaitingRoom) Each(ctx context.Context, visit func(WaitingRequest) error) error {
	return r.each(ctx, r.subjects.AllWaiting(), visit)
}

// After visits the requests that were stored after a sequence of the stream, oldest first, in the same
// way as Each. It returns the last sequence that it has visited or skipped, else the given one.
func (r *WaitingRoom) After(ctx context.Context, sequence uint64, visit func(WaitingRequest) error) (read uint64, err error) {
	read = sequence
	err = streams.Each(ctx, r.streams, r.stream(), sequence+1, r.subjects.AllWaiting(), func(msg streams.Message) error {
		w, err := r.read(msg)
		if err == nil {
			err = visit(w)
		} else {
			err = r.pass(err)
		}
		if err == nil {
			read = msg.Sequence
		}
		return err
	})
	return read, err
}

// Get returns the request on a subject, and whether it still waits. If the last message on the subject is
// unreadable, Get reports the unreadable ones to OnForeign, and returns the last readable one.
func (r *WaitingRoom) Get(ctx context.Context, subject string) (WaitingRequest, bool, error) {
	msg, err := r.streams.Message(ctx, r.stream(), streams.Query{LastFor: subject})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return WaitingRequest{}, false, nil
	}
	if err != nil {
		return WaitingRequest{}, false, fmt.Errorf("reading the waiting request %s: %w", subject, err)
	}
	w, err := r.read(msg)
	if err == nil {
		return w, true, nil
	}
	found := false
	err = r.each(ctx, subject, func(earlier WaitingRequest) error {
		w, found = earlier, true
		return nil
	})
	return w, found, err
}

// State returns the number of messages, unreadable ones included, and the highest sequence that the
// stream has assigned.
func (r *WaitingRoom) State(ctx context.Context) (messages, last uint64, err error) {
	state, err := r.streams.State(ctx, r.stream())
	return state.Msgs, state.LastSeq, err
}

// Subjects returns the subjects of all messages, unreadable ones included, with the number of messages
// on each.
func (r *WaitingRoom) Subjects(ctx context.Context) (map[string]uint64, error) {
	return r.streams.Subjects(ctx, r.stream(), r.subjects.AllWaiting())
}

// OfRuntime visits the waiting requests of one runtime, in the same way as Each.
func (r *WaitingRoom) OfRuntime(ctx context.Context, runtimeID string, visit func(WaitingRequest) error) error {
	return r.each(ctx, r.subjects.RuntimeWaiting(runtimeID), visit)
}

// Matching visits the waiting requests that an address matches, in the same way as Each. An empty
// field of the address matches any value.
func (r *WaitingRoom) Matching(ctx context.Context, of events.WaitingAddress, visit func(WaitingRequest) error) error {
	return r.each(ctx, r.subjects.WaitingOf(of), visit)
}

func (r *WaitingRoom) each(ctx context.Context, filter string, visit func(WaitingRequest) error) error {
	return streams.Each(ctx, r.streams, r.stream(), 1, filter, func(msg streams.Message) error {
		w, err := r.read(msg)
		if err != nil {
			return r.pass(err)
		}
		return visit(w)
	})
}

// Addresses calls visit with the address in the subject of each message, for one runtime or, if runtimeID is
// "", for all. foreign is nil for a readable request, and describes an unreadable message, such as a newer
// version's. If the subject of an unreadable message is not that of a waiting request either, the address is
// zero. It returns the first error of visit.
func (r *WaitingRoom) Addresses(ctx context.Context, runtimeID string, visit func(a events.WaitingAddress, foreign *events.Foreign) error) error {
	filter := r.subjects.AllWaiting()
	if runtimeID != "" {
		filter = r.subjects.RuntimeWaiting(runtimeID)
	}
	return streams.Each(ctx, r.streams, r.stream(), 1, filter, func(msg streams.Message) error {
		_, err := r.read(msg)
		found, _ := events.ForeignOf(err)
		if err := r.pass(err); err != nil {
			return err
		}
		address, _ := r.subjects.ParseWaiting(msg.Subject) // the zero address if the subject is not a request's
		return visit(address, found)
	})
}

func (r *WaitingRoom) read(msg streams.Message) (WaitingRequest, error) {
	return ReadWaiting(r.subjects, msg)
}

// ReadWaiting decodes a message of the waiting room under the subjects. Its error is always a
// *Foreign.
func ReadWaiting(subjects events.Subjects, msg streams.Message) (WaitingRequest, error) {
	w, err := waitingRequest(subjects, msg)
	if err != nil {
		return w, events.NewForeign(subjects.Stream(events.StreamWaiting), msg, err)
	}
	return w, nil
}

func waitingRequest(subjects events.Subjects, msg streams.Message) (WaitingRequest, error) {
	address, err := subjects.ParseWaiting(msg.Subject)
	if err != nil {
		return WaitingRequest{}, err
	}
	header := msg.Header
	event, err := events.DecodeKept(subjects.Provision(address.GlobalAccountID), header, msg.Data)
	if err != nil {
		return WaitingRequest{}, err
	}
	if event.Provision == nil || event.ID != address.RequestID || event.RuntimeID != address.RuntimeID {
		return WaitingRequest{}, fmt.Errorf("it is the %s %s of runtime %s", event.Type, event.ID, event.RuntimeID)
	}
	return WaitingRequest{
		Event: event, Pool: address.Pool, Subject: msg.Subject, Sequence: msg.Sequence,
		Since: timeOf(header, HeaderSince, msg.Time), Entered: msg.Time,
		Reason: events.WaitingReason(events.HeaderValue(header, HeaderWaiting)), Deadline: timeOf(header, HeaderDeadline, msg.Time),
	}, nil
}

// timeOf returns the time in a header, or fallback if the header is missing or cannot be read. The caller's
// fallback is when the message was stored: so a request without a readable deadline has expired.
func timeOf(header nats.Header, name string, fallback time.Time) time.Time {
	at, err := time.Parse(time.RFC3339Nano, events.HeaderValue(header, name))
	if err != nil {
		return fallback
	}
	return at
}
