package events

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/events/internal/object"
	"github.com/hap-worker/hap-worker/events/streams"
)

// ErrUnknownReply says that a message calls itself a reply and cannot be read: one of
// a newer version, which may be final. It is never replaced, and never purged with the
// replies of its runtime.
var ErrUnknownReply = errors.New("a reply that this version cannot read")

// Foreign is a message in a stream of ours that this version cannot read. It stays
// where it is, and those beside it are read.
type Foreign struct {
	Stream   string
	Subject  string
	Sequence uint64
	Time     time.Time // the stream had it
	Bytes    int       // of its data
	// Reply says that it calls itself a reply and may be a final one: ErrUnknownReply.
	Reply bool
	Err   error // why it cannot be read
}

// maxFault bounds what is said of a message that anybody may have written.
const maxFault = 300

// Error names the message. Nothing of it is longer than a line, or raw.
func (f *Foreign) Error() string {
	what := "no message of ours"
	if f.Reply {
		what = ErrUnknownReply.Error()
	}
	return fmt.Sprintf("sequence %d of %s, on %s, is %s: %s", f.Sequence, f.Stream, quote(f.Subject), what, streams.OneLine(f.Err.Error(), maxFault))
}

// Unwrap makes a reply of a newer version ErrUnknownReply.
func (f *Foreign) Unwrap() []error {
	if f.Reply {
		return []error{ErrUnknownReply, f.Err}
	}
	return []error{f.Err}
}

// NewForeign returns the Foreign for a message of a stream that cannot be read, and why.
func NewForeign(stream string, msg streams.Message, err error) *Foreign {
	return &Foreign{
		Stream: stream, Subject: msg.Subject, Sequence: msg.Sequence, Time: msg.Time, Bytes: len(msg.Data), Err: err,
		Reply: callsItselfReply(msg.Data),
	}
}

// callsItselfReply reports whether data that DecodeReply refuses may be a final reply
// of a newer version: by its type, unless its status is one that is followed by others.
func callsItselfReply(data []byte) bool {
	top, inner := map[string]string{}, map[string]string{}
	object.Strings(data, top, inner)
	if !strings.HasPrefix(top["type"], "hap.reply.") {
		return false
	}
	status := Status(inner["status"])
	return status != StatusWaiting && status != StatusSealed
}

// ForeignOf returns the message that an error of this package is about.
func ForeignOf(err error) (*Foreign, bool) { return errors.AsType[*Foreign](err) }

// foreigners are told of the messages that a reader passes over.
type foreigners struct{ tell func(*Foreign) }

// OnForeign has tell called with each message that cannot be read and is passed over,
// every time that it is met. It is set before the first use.
func (f *foreigners) OnForeign(tell func(*Foreign)) { f.tell = tell }

// pass tells of a foreign message and returns nil; any other error is returned.
func (f *foreigners) pass(err error) error {
	found, ok := ForeignOf(err)
	if !ok {
		return err
	}
	if f.tell != nil {
		f.tell(found)
	}
	return nil
}
