package events

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/events/object"
	"github.com/hap-worker/hap-worker/events/streams"
)

// ErrUnknownReply says that a message calls itself a reply but cannot be read. It may be the final reply
// of a newer version. Therefore it is never replaced, and never purged with the replies of its runtime.
var ErrUnknownReply = errors.New("a reply that this version cannot read")

// Foreign is a message in one of hap-worker's streams that this version cannot read. Readers leave it in the
// stream and continue with the messages after it.
type Foreign struct {
	Stream   string
	Subject  string
	Sequence uint64
	Time     time.Time // when the stream stored it
	Bytes    int       // of its data
	// Reply is true if the message calls itself a reply and may be final. Then the Foreign also
	// unwraps to ErrUnknownReply.
	Reply bool
	Err   error // why it cannot be read
}

// maxFault bounds, in bytes, the fault text of a message that any client may have written.
const maxFault = 300

// Error names the message and its fault in one line. Text from the message is shortened, and its control
// characters are escaped or replaced.
func (f *Foreign) Error() string {
	what := "no message that hap-worker can read"
	if f.Reply {
		what = ErrUnknownReply.Error()
	}
	return fmt.Sprintf("sequence %d of %s, on %s, is %s: %s", f.Sequence, f.Stream, object.Quote(f.Subject), what, streams.OneLine(f.Err.Error(), maxFault))
}

// Unwrap returns the fault and, if Reply is true, ErrUnknownReply.
func (f *Foreign) Unwrap() []error {
	if f.Reply {
		return []error{ErrUnknownReply, f.Err}
	}
	return []error{f.Err}
}

// NewForeign returns the Foreign for an unreadable message of a stream; err says why it is unreadable.
func NewForeign(stream string, msg streams.Message, err error) *Foreign {
	return &Foreign{
		Stream: stream, Subject: msg.Subject, Sequence: msg.Sequence, Time: msg.Time, Bytes: len(msg.Data), Err: err,
		Reply: callsItselfReply(msg.Data),
	}
}

// callsItselfReply reports whether data that DecodeReply refuses may be a final reply of a newer
// version: its type is a reply's, and its status is neither waiting nor sealed.
func callsItselfReply(data []byte) bool {
	top, inner := map[string]string{}, map[string]string{}
	object.Strings(data, top, inner)
	if !strings.HasPrefix(top["type"], "hap.reply.") {
		return false
	}
	status := Status(inner["status"])
	return status != StatusWaiting && status != StatusSealed
}

// ForeignOf returns the *Foreign that err is or wraps, and whether there is one.
func ForeignOf(err error) (*Foreign, bool) { return errors.AsType[*Foreign](err) }
