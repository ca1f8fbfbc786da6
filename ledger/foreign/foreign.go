// Package foreign finds the messages in hap-worker's streams that readers skip because they
// cannot read them, and removes them one by one.
package foreign

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// ErrKept says that Messages.Remove refuses a message, or that Messages.Find has found a readable one.
var ErrKept = errors.New("it is not removed")

// Message is an unreadable message in one of hap-worker's streams, with its header and data.
type Message struct {
	*events.Foreign

	Header nats.Header
	Data   []byte
	// Request is the waiting request that the subject names in HAP_WAITING; zero if it names none.
	Request events.WaitingAddress
}

// Messages finds the messages that readers skip because they cannot read them, and removes them one by one.
type Messages struct {
	streams  streams.Streams
	subjects events.Subjects
}

// New returns the foreign messages of the streams under the subjects.
func New(js jetstream.JetStream, subjects events.Subjects) *Messages {
	return &Messages{streams: streams.New(js), subjects: subjects}
}

// Streams returns the names of the streams that Each can search. An unreadable message of HAP_EVENTS is
// there only until a worker moves it to the dead letters.
func Streams() []string {
	return []string{events.StreamEvents, events.StreamWaiting, events.StreamReplies}
}

// Each visits the unreadable messages of one of Streams, in stream order. It returns the first error
// of visit.
func (f *Messages) Each(ctx context.Context, stream string, visit func(Message) error) error {
	look := func(msg streams.Message) error {
		if found, is := f.look(stream, msg); is {
			return visit(found)
		}
		return nil
	}
	name := f.subjects.Stream(stream)
	if stream == events.StreamReplies {
		return f.streams.Walk(ctx, name, 0, look)
	}
	// The other streams are short, and a work-queue stream allows no second consumer.
	return streams.Each(ctx, f.streams, name, 1, ">", look)
}

// Find returns the unreadable message at a sequence of one of Streams. Errors: jetstream.ErrMsgNotFound,
// ErrKept for a message that can be read.
func (f *Messages) Find(ctx context.Context, stream string, sequence uint64) (Message, error) {
	name := f.subjects.Stream(stream)
	msg, err := f.streams.Message(ctx, name, streams.Query{Sequence: sequence})
	if err != nil {
		return Message{}, fmt.Errorf("reading sequence %d of %s: %w", sequence, name, err)
	}
	found, is := f.look(stream, msg)
	if !is {
		return Message{}, fmt.Errorf("sequence %d of %s can be read: %w", sequence, name, ErrKept)
	}
	return found, nil
}

func (f *Messages) look(stream string, msg streams.Message) (Message, bool) {
	var err error
	var request events.WaitingAddress
	name := f.subjects.Stream(stream)
	switch stream {
	case events.StreamEvents:
		if _, fault := events.Decode(msg.Subject, msg.Header, msg.Data); fault != nil {
			err = events.NewForeign(name, msg, fault)
		}
	case events.StreamWaiting:
		_, err = storage.ReadWaiting(f.subjects, msg)
		request, _ = f.subjects.ParseWaiting(msg.Subject) // the zero address if the subject is not a request's
	default:
		_, err = events.ReadStored(name, msg)
	}
	found, is := events.ForeignOf(err)
	return Message{Foreign: found, Header: msg.Header, Data: msg.Data, Request: request}, is
}

// Kept returns why Remove refuses a message, as an error that wraps ErrKept, and nil if Remove deletes it.
// Any other error is of reading the stream. Remove refuses a possible answer of a newer version, an event
// that a worker will move to the dead letters, and a message whose purge would delete others: its subject
// has wildcards, or has an older message.
func (f *Messages) Kept(ctx context.Context, m Message) error {
	switch {
	case m.Stream == f.subjects.Stream(events.StreamEvents):
		return fmt.Errorf("%w: a worker makes a dead letter of it, and removes it then", ErrKept)
	case m.Reply && m.Stream == f.subjects.Stream(events.StreamReplies):
		return fmt.Errorf("%w: it may be the answer of a newer worker; let one of that version run", ErrKept)
	case strings.ContainsAny(m.Subject, "*>"):
		return fmt.Errorf("%w: its subject reads as one with wildcards", ErrKept)
	}
	first, err := f.streams.Message(ctx, m.Stream, streams.Query{Sequence: 1, NextFor: m.Subject})
	switch {
	case err != nil:
		return fmt.Errorf("reading %s on %.80q: %w", m.Stream, m.Subject, err)
	case first.Sequence < m.Sequence:
		return fmt.Errorf("%w before the older sequence %d on the same subject: remove that one first or, if it is a waiting request, let it be answered", ErrKept, first.Sequence)
	}
	return nil
}

// Remove deletes one message unless Kept returns an error, which it then returns. It uses a purge, for which
// workers have the right.
func (f *Messages) Remove(ctx context.Context, m Message) error {
	if err := f.Kept(ctx, m); err != nil {
		return err
	}
	// The purge deletes up to this sequence, and Kept has found no older message on the subject.
	if err := f.streams.Purge(ctx, m.Stream, m.Subject, m.Sequence); err != nil {
		return fmt.Errorf("removing sequence %d of %s: %w", m.Sequence, m.Stream, err)
	}
	return nil
}
