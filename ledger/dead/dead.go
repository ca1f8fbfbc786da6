// Package dead keeps the events that can never be processed: the dead letters.
package dead

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
)

// A dead letter has these headers in addition to those of the event.
const (
	HeaderReason      = "Hap-Reason"       // why the event can never be processed
	HeaderCode        = "Hap-Code"         // the code of the error
	HeaderSequence    = "Hap-Stream-Seq"   // sequence of the event in HAP_EVENTS
	HeaderTruncated   = "Hap-Truncated"    // "data", "headers" or "data,headers": the incomplete parts
	HeaderOrigSubject = "Hap-Orig-Subject" // subject of the event

	origPrefix = "Hap-Orig-" // before a name, or in place of Nats-, where server or client would interpret the header
)

const (
	maxDeadHeaders = 64 << 10 // bytes of the event's headers; with the data they must stay below the server's limit
	longHeaders    = 4 << 10  // bytes; longer headers are left out before data are cut
	maxReason      = 2 << 10  // bytes
)

// The parts of a dead letter that may be incomplete.
const (
	cutData    = "data"
	cutHeaders = "headers"
)

// Event is a delivered event that can never be processed.
type Event struct {
	Type     events.Type // "" if it is unknown
	Subject  string
	Sequence uint64 // in HAP_EVENTS
	// Published is when HAP_EVENTS stored the event. A stream that was recreated by hand
	// may use a sequence again, so only both together identify the event.
	Published time.Time
	Header    nats.Header
	Data      []byte
}

// Letters stores and reads dead letters in their stream.
type Letters struct {
	streams  streams.Streams
	subjects events.Subjects
}

// NewLetters returns Letters for the subjects.
func NewLetters(js jetstream.JetStream, subjects events.Subjects) *Letters {
	return NewLettersOn(streams.New(js), subjects)
}

// NewLettersOn returns Letters on the given streams.
func NewLettersOn(streams streams.Streams, subjects events.Subjects) *Letters {
	return &Letters{streams: streams, subjects: subjects}
}

// Put stores a copy of the event with the reason. It returns when the stream has stored the
// copy. Put cuts data beyond events.MaxMessage, and leaves out headers beyond 64 KiB and those that are not
// streams.Publishable. If NATS refuses the copy for its size, Put leaves out all headers if they are long, and
// then halves the data until NATS accepts it. A repeated Put of the same event within the duplicate window changes
// nothing. After an error the copy may or may not be stored.
func (d *Letters) Put(ctx context.Context, event Event, code engine.Code, reason string) error {
	data, cut := event.Data, []string(nil)
	if len(data) > events.MaxMessage {
		data, cut = data[:events.MaxMessage], append(cut, cutData)
	}
	header, size, complete := deadHeader(event.Header)
	if !complete {
		cut = append(cut, cutHeaders)
	}
	for {
		d.describe(header, event, code, reason, cut)
		_, err := d.streams.Publish(ctx, &nats.Msg{Subject: d.subjects.Dead(event.Type), Header: header, Data: data})
		switch {
		case err == nil:
			return nil
		case !streams.Refused(err) || len(data) == 0 && size == 0 && slices.Contains(cut, cutHeaders):
			return fmt.Errorf("storing the dead letter of the event with sequence %d: %w", event.Sequence, err)
		case len(data) == 0 || size > longHeaders:
			if header, size = (nats.Header{}), 0; !slices.Contains(cut, cutHeaders) {
				cut = append(cut, cutHeaders)
			}
		default: // NATS accepted the event, but not with the additional headers
			if data = data[:len(data)/2]; !slices.Contains(cut, cutData) {
				cut = slices.Insert(cut, 0, cutData)
			}
		}
	}
}

// describe adds the headers that say why the event is a dead letter, the expected stream and the message id.
func (d *Letters) describe(header nats.Header, event Event, code engine.Code, reason string, cut []string) {
	if cut != nil {
		header[HeaderTruncated] = []string{strings.Join(cut, ",")}
	}
	header[HeaderReason] = []string{streams.OneLine(reason, maxReason)}
	header[HeaderCode] = []string{streams.OneLine(string(code), maxReason)}
	header[HeaderSequence] = []string{strconv.FormatUint(event.Sequence, 10)}
	header[HeaderOrigSubject] = []string{streams.OneLine(event.Subject, maxReason)}
	header[jetstream.ExpectedStreamHeader] = []string{d.subjects.Stream(events.StreamDead)}
	header[jetstream.MsgIDHeader] = []string{event.id()}
}

// id returns the message id. All copies of an event have the same id.
func (e Event) id() string {
	if e.Published.IsZero() {
		return fmt.Sprintf("%s/%d", events.StreamEvents, e.Sequence)
	}
	return fmt.Sprintf("%s/%d/%d", events.StreamEvents, e.Sequence, e.Published.UnixNano())
}

// deadHeader copies the headers and renames those that server or client would interpret. complete is false if some
// are left out: those with a name that cannot be published, or because all together are longer than maxDeadHeaders.
// size is that of the copied headers.
func deadHeader(original nats.Header) (header nats.Header, size int, complete bool) {
	header, complete = nats.Header{}, true
	for name, values := range original {
		switch {
		case !streams.Publishable(name):
			complete = false
			continue
		case len(name) >= len("Nats-") && strings.EqualFold(name[:len("Nats-")], "Nats-"):
			name = origPrefix + name[len("Nats-"):]
		case name == streams.StatusHeader:
			name = origPrefix + name
		}
		for _, value := range values {
			if longer := size + len(name) + len(value) + len(": \r\n"); longer <= maxDeadHeaders {
				size = longer
			} else {
				return header, size, false
			}
			header[name] = append(header[name], streams.OneLine(value, maxDeadHeaders))
		}
	}
	return header, size, complete
}
