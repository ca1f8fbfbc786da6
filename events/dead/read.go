package events

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
)

// ErrNoLetter says that there is no dead letter with that number; it may be older
// than the stream keeps them.
var ErrNoLetter = errors.New("there is no such dead letter")

// DeadLetter is an event as the stream of dead letters keeps it.
type DeadLetter struct {
	Number    uint64 // in HAP_DEAD
	StoredAt  time.Time
	Code      engine.Code
	Reason    string
	Subject   string // that it was published on
	Sequence  uint64 // in HAP_EVENTS
	Truncated string // what is not complete, "" for nothing
	Header    nats.Header
	Data      []byte
	Event     Event // as far as it can be read
	Fault     error // why it is no event; nil where the event is valid by itself
}

// Each visits the dead letters, oldest first, but none that comes after it has found
// the first. It ends with the first error of visit.
func (d *DeadLetters) Each(ctx context.Context, visit func(DeadLetter) error) error {
	return eachMessage(ctx, d.streams, d.subjects.Stream(StreamDead), 1, d.subjects.AllDead(), func(msg Message) error {
		return visit(letterOf(msg))
	})
}

// Letter gives the dead letter with that number. ErrNoLetter.
func (d *DeadLetters) Letter(ctx context.Context, number uint64) (DeadLetter, error) {
	msg, err := d.streams.Message(ctx, d.subjects.Stream(StreamDead), Query{Sequence: number})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return DeadLetter{}, fmt.Errorf("%d: %w", number, ErrNoLetter)
	}
	if err != nil {
		return DeadLetter{}, fmt.Errorf("reading sequence %d of %s: %w", number, d.subjects.Stream(StreamDead), err)
	}
	return letterOf(msg), nil
}

func letterOf(msg Message) DeadLetter {
	header := msg.Header
	l := DeadLetter{
		Number: msg.Sequence, StoredAt: msg.Time.UTC(), Header: header, Data: msg.Data,
		Code: engine.Code(headerValue(header, HeaderCode)), Reason: headerValue(header, HeaderReason),
		Subject: headerValue(header, HeaderOrigSubject), Truncated: headerValue(header, HeaderTruncated),
	}
	l.Sequence, _ = strconv.ParseUint(headerValue(header, HeaderSequence), 10, 64)
	l.Event, l.Fault = Decode(l.Subject, originalHeader(header), msg.Data)
	return l
}

// originalHeader is the header that the event was published with.
func originalHeader(header nats.Header) nats.Header {
	original := nats.Header{}
	for name, values := range header {
		switch name {
		case HeaderReason, HeaderCode, HeaderSequence, HeaderTruncated, HeaderOrigSubject:
			continue
		}
		if strings.HasPrefix(name, "Nats-") {
			continue // of the letter, not of the event
		}
		if rest, renamed := strings.CutPrefix(name, origPrefix); renamed {
			name = "Nats-" + rest
		}
		original[name] = values
	}
	return original
}
