package events

import (
	"time"

	"github.com/hap-worker/hap-worker/events/streams"
)

// Stored is a reply in the ledger.
type Stored struct {
	Reply Reply
	// Foreign is nil for a readable reply. It is set if the message cannot be read; Reply is then empty. A new
	// reply may replace the message unless Foreign.Reply is true.
	Foreign  *Foreign
	Subject  string
	Sequence uint64 // of the stream
	Time     time.Time
}

// ReadStored decodes a message of a ledger. Its error is always a *Foreign.
func ReadStored(stream string, msg streams.Message) (Stored, error) {
	r, err := DecodeReply(msg.Data)
	if err != nil {
		return Stored{}, NewForeign(stream, msg, err)
	}
	return Stored{Reply: r, Subject: msg.Subject, Sequence: msg.Sequence, Time: msg.Time}, nil
}
