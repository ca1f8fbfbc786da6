package events

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
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

// Letter is an event that can never be processed, as it was delivered.
type Letter struct {
	Type     Type // "" where it is not known
	Subject  string
	Sequence uint64 // in HAP_EVENTS
	// Published is when HAP_EVENTS had it. A stream that is recreated begins at
	// sequence 1 again: both together say which event it is.
	Published time.Time
	Header    nats.Header
	Data      []byte
}

// DeadLetters is the stream of events that can never be processed.
type DeadLetters struct {
	streams  Streams
	subjects Subjects
}

// NewDeadLetters gives the dead letters under the subjects.
func NewDeadLetters(js jetstream.JetStream, subjects Subjects) *DeadLetters {
	return NewDeadLettersOn(NewStreams(js), subjects)
}

// NewDeadLettersOn returns the dead letters that are kept in these streams.
func NewDeadLettersOn(streams Streams, subjects Subjects) *DeadLetters {
	return &DeadLetters{streams: streams, subjects: subjects}
}

// Put stores a copy of the event with the reason and returns once the stream has
// it. Putting the same event again within the duplicate window changes nothing.
func (d *DeadLetters) Put(ctx context.Context, letter Letter, code engine.Code, reason string) error {
	data, cut := letter.Data, []string(nil)
	if len(data) > MaxMessage {
		data, cut = data[:MaxMessage], append(cut, "data")
	}
	header, complete := deadHeader(letter.Header)
	if !complete {
		cut = append(cut, "headers")
	}
	if cut != nil {
		header[HeaderTruncated] = []string{strings.Join(cut, ",")}
	}
	header[HeaderReason] = []string{oneLine(reason, maxReason)}
	header[HeaderCode] = []string{oneLine(string(code), maxReason)}
	header[HeaderSequence] = []string{strconv.FormatUint(letter.Sequence, 10)}
	header[HeaderOrigSubject] = []string{oneLine(letter.Subject, maxReason)}

	header[jetstream.ExpectedStreamHeader] = []string{d.subjects.Stream(StreamDead)}
	header[jetstream.MsgIDHeader] = []string{letter.id()}
	_, err := d.streams.Publish(ctx, &nats.Msg{Subject: d.subjects.Dead(letter.Type), Header: header, Data: data})
	if err != nil {
		return fmt.Errorf("storing the dead letter of sequence %d: %w", letter.Sequence, err)
	}
	return nil
}

// id is the same for each copy of one event.
func (l Letter) id() string {
	if l.Published.IsZero() {
		return fmt.Sprintf("%s/%d", StreamEvents, l.Sequence)
	}
	return fmt.Sprintf("%s/%d/%d", StreamEvents, l.Sequence, l.Published.UnixNano())
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
			header[name] = append(header[name], oneLine(value, maxDeadHeaders))
		}
	}
	return header, complete
}

// oneLine makes text fit for a header: a line break would begin another one.
func oneLine(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.TrimSpace(text)
}
