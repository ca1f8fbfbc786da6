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

// The headers of a dead letter, beside those of the event.
const (
	HeaderReason      = "Hap-Reason"       // why it can never be processed
	HeaderCode        = "Hap-Code"         // the code of the error
	HeaderSequence    = "Hap-Stream-Seq"   // of the event in HAP_EVENTS
	HeaderTruncated   = "Hap-Truncated"    // "data", "headers" or "data,headers": what is not complete
	HeaderOrigSubject = "Hap-Orig-Subject" // where the event was published

	origPrefix = "Hap-Orig-" // in place of Nats-, which the server would act upon
)

const (
	maxDeadHeaders = 64 << 10 // bytes, so that headers and data together pass the server
	maxReason      = 2 << 10  // bytes
)

// What may not be complete in a dead letter.
const (
	cutData    = "data"
	cutHeaders = "headers"
)

// Event is one that can never be processed, as it was delivered.
type Event struct {
	Type     events.Type // "" where it is not known
	Subject  string
	Sequence uint64 // in HAP_EVENTS
	// Published is when HAP_EVENTS had it. A stream that is recreated begins at
	// sequence 1 again: both together say which event it is.
	Published time.Time
	Header    nats.Header
	Data      []byte
}

// Letters is the stream of events that can never be processed.
type Letters struct {
	streams  streams.Streams
	subjects events.Subjects
}

// NewLetters gives the dead letters under the subjects.
func NewLetters(js jetstream.JetStream, subjects events.Subjects) *Letters {
	return NewLettersOn(streams.New(js), subjects)
}

// NewLettersOn returns the dead letters that are kept in these streams.
func NewLettersOn(streams streams.Streams, subjects events.Subjects) *Letters {
	return &Letters{streams: streams, subjects: subjects}
}

// Put stores a copy of the event with the reason and returns once the stream has
// it. What NATS does not take as a whole is cut. Putting the same event again within the duplicate window changes nothing.
func (d *Letters) Put(ctx context.Context, event Event, code engine.Code, reason string) error {
	data, cut := event.Data, []string(nil)
	if len(data) > events.MaxMessage {
		data, cut = data[:events.MaxMessage], append(cut, cutData)
	}
	header, complete := deadHeader(event.Header)
	if !complete {
		cut = append(cut, cutHeaders)
	}
	for {
		d.describe(header, event, code, reason, cut)
		_, err := d.streams.Publish(ctx, &nats.Msg{Subject: d.subjects.Dead(event.Type), Header: header, Data: data})
		switch {
		case err == nil:
			return nil
		case !streams.Refused(err) || len(data) == 0 && slices.Contains(cut, cutHeaders):
			return fmt.Errorf("storing the dead letter of sequence %d: %w", event.Sequence, err)
		case len(data) == 0:
			header, cut = nats.Header{}, append(cut, cutHeaders)
		default: // NATS took the event, but not with the headers of a dead letter
			if data = data[:len(data)/2]; !slices.Contains(cut, cutData) {
				cut = slices.Insert(cut, 0, cutData)
			}
		}
	}
}

// describe sets the headers of a dead letter beside those of the event.
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

// id is the same for each copy of one event.
func (e Event) id() string {
	if e.Published.IsZero() {
		return fmt.Sprintf("%s/%d", events.StreamEvents, e.Sequence)
	}
	return fmt.Sprintf("%s/%d/%d", events.StreamEvents, e.Sequence, e.Published.UnixNano())
}

// deadHeader copies the headers, without what the server would act upon; complete
// is false where there were too many.
func deadHeader(original nats.Header) (header nats.Header, complete bool) {
	header, complete = nats.Header{}, true
	size := 0
	for name, values := range original {
		if len(name) >= len("Nats-") && strings.EqualFold(name[:len("Nats-")], "Nats-") {
			name = origPrefix + name[len("Nats-"):]
		}
		for _, value := range values {
			if size += len(name) + len(value) + len(": \r\n"); size > maxDeadHeaders {
				return header, false
			}
			header[name] = append(header[name], streams.OneLine(value, maxDeadHeaders))
		}
	}
	return header, complete
}
