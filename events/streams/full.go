package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Full is the error of a message for which a stream has no room. The same message may be
// stored later.
type Full struct {
	Stream string // its name, or "of" and the subject of the message if the name is unknown
	Limit  string // the limit that is reached
	Err    error  // of JetStream
}

// Error names stream and limit.
func (f *Full) Error() string {
	return fmt.Sprintf("stream %s is full, at %s: %v", f.Stream, f.Limit, f.Err)
}

// Unwrap returns the error of JetStream.
func (f *Full) Unwrap() error { return f.Err }

// The codes with which a server refuses a message for want of room, which jetstream does not name.
const (
	codeAccountFull  = 10002
	codeServerFull   = 10023
	codeMemoryFull   = 10028
	codeStorageFull  = 10047
	codeStoreRefused = 10077 // with one of storeLimits as its description; any other is a fault of the store
)

var storeLimits = map[string]string{
	"maximum bytes exceeded":                "its limit max_bytes",
	"maximum messages exceeded":             "its limit max_msgs",
	"maximum messages per subject exceeded": "its limit max_msgs_per_subject",
}

// limitOf returns which limit an error says is reached, "" for any other error.
func limitOf(err error) string {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return ""
	}
	switch api.ErrorCode {
	case codeAccountFull:
		return "the JetStream limits of its NATS account"
	case codeServerFull, codeMemoryFull, codeStorageFull:
		return "the JetStream storage of the NATS server or of its account"
	case codeStoreRefused:
		return storeLimits[api.Description]
	default:
		return ""
	}
}

// NoRoom reports whether a message was refused for want of room.
func NoRoom(err error) bool { return limitOf(err) != "" }

// Explained returns the error of a publication on a subject, wrapped in a *Full if the stream has no
// room. stream is "" if its name is unknown.
func Explained(stream, subject string, err error) error {
	limit := limitOf(err)
	if limit == "" {
		return err
	}
	if stream == "" {
		stream = "of " + subject
	}
	return &Full{Stream: stream, Limit: limit, Err: err}
}

// OnFull returns streams that call tell for each message for which a stream has no room. stream is the name that
// the message expects, "" if it expects none.
func OnFull(streams Streams, tell func(stream string)) Streams { return toldOf{streams, tell} }

type toldOf struct {
	Streams
	tell func(stream string)
}

// Publish stores a message, and calls tell if the stream has no room for it.
func (t toldOf) Publish(ctx context.Context, msg *nats.Msg) (*jetstream.PubAck, error) {
	ack, err := t.Streams.Publish(ctx, msg)
	if NoRoom(err) {
		t.tell(msg.Header.Get(jetstream.ExpectedStreamHeader))
	}
	return ack, err
}
