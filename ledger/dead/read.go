package dead

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
)

// ErrNoLetter says that there is no dead letter with that number; it may be older
// than the stream keeps them.
var ErrNoLetter = errors.New("there is no such dead letter")

// Letter is an event as the stream of dead letters keeps it.
type Letter struct {
	Number    uint64 // sequence in HAP_DEAD
	StoredAt  time.Time
	Code      engine.Code
	Reason    string
	Subject   string // on which the event was published
	Sequence  uint64 // in HAP_EVENTS
	Truncated string // the incomplete parts: "data", "headers" or "data,headers"; "" if the copy is complete
	Header    nats.Header
	Data      []byte
	Event     events.Event // as far as it can be read
	Fault     error        // why it does not decode; nil if the event is valid by itself
}

// Tenant returns the global account that the letter names, by its data or else its subject; "" if it names none.
func (l Letter) Tenant() string { return cmp.Or(l.Event.Tenant(), events.TenantIn(l.Subject)) }

// Each visits the dead letters, oldest first. It may leave out those that are stored after it has found the
// first. It returns the first error of visit.
func (d *Letters) Each(ctx context.Context, visit func(Letter) error) error {
	return streams.Each(ctx, d.streams, d.subjects.Stream(events.StreamDead), 1, d.subjects.AllDead(), func(msg streams.Message) error {
		return visit(letterOf(msg))
	})
}

// Newest visits the letters that were stored at since or later, oldest first, but only among the last `most`
// sequences of the stream. The Extent says what it has left out.
func (d *Letters) Newest(ctx context.Context, since time.Time, most uint64, visit func(Letter) error) (streams.Extent, error) {
	return streams.Newest(ctx, d.streams, d.subjects.Stream(events.StreamDead), d.subjects.AllDead(), since, most, func(msg streams.Message) error {
		return visit(letterOf(msg))
	})
}

// Letter returns the dead letter with that number. Error: ErrNoLetter.
func (d *Letters) Letter(ctx context.Context, number uint64) (Letter, error) {
	msg, err := d.streams.Message(ctx, d.subjects.Stream(events.StreamDead), streams.Query{Sequence: number})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Letter{}, fmt.Errorf("%d: %w", number, ErrNoLetter)
	}
	if err != nil {
		return Letter{}, fmt.Errorf("reading sequence %d of %s: %w", number, d.subjects.Stream(events.StreamDead), err)
	}
	return letterOf(msg), nil
}

func letterOf(msg streams.Message) Letter {
	header, get := msg.Header, func(name string) string { return events.HeaderValue(msg.Header, name) }
	l := Letter{
		Number: msg.Sequence, StoredAt: msg.Time.UTC(), Header: header, Data: msg.Data,
		Code: engine.Code(get(HeaderCode)), Reason: get(HeaderReason),
		Subject: get(HeaderOrigSubject), Truncated: get(HeaderTruncated),
	}
	l.Sequence, _ = strconv.ParseUint(get(HeaderSequence), 10, 64)
	l.Event, l.Fault = events.Decode(l.Subject, originalHeader(header), msg.Data)
	return l
}

// originalHeader returns the headers with which the event was published, as far as the letter has them.
func originalHeader(header nats.Header) nats.Header {
	original := nats.Header{}
	for name, values := range header {
		switch name {
		case HeaderReason, HeaderCode, HeaderSequence, HeaderTruncated, HeaderOrigSubject:
			continue
		}
		if strings.HasPrefix(name, "Nats-") {
			continue // it belongs to the letter, not to the event
		}
		if rest, renamed := strings.CutPrefix(name, origPrefix); renamed {
			if name = "Nats-" + rest; rest == streams.StatusHeader {
				name = rest
			}
		}
		original[name] = values
	}
	return original
}
