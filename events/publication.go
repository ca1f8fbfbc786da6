package events

import (
	"cmp"
	"crypto/rand"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Publication returns the message that publishes an event on its subject. The stream stores one message
// per message id within the duplicate window. The message id consists of type, request id and the runtime
// or binding, since requests for two runtimes may have the same request id. With replyTo it also has a
// random part, so that a repeat reaches a worker, which copies the stored reply to the inbox. Errors: an
// *contract.Error with CodeInvalidEvent for an event that a worker would refuse.
func Publication(s Subjects, e Event) (*nats.Msg, error) {
	data, err := EncodeEvent(e)
	if err != nil {
		return nil, err
	}
	msg := NewMessage(e.subject(s), data)
	if e.Traceparent != "" {
		msg.Header["traceparent"] = []string{e.Traceparent}
	}
	to := e.Addressed()
	id := string(e.Type) + "/" + e.ID + "/" + cmp.Or(to.RuntimeID, to.Binding)
	if to.ReplyTo != "" {
		id += "/" + rand.Text()
	}
	msg.Header[jetstream.MsgIDHeader] = []string{id}
	msg.Header[jetstream.ExpectedStreamHeader] = []string{s.Stream(StreamEvents)}
	return msg, nil
}

// contentTypes is shared by all messages: no code changes the values of a header.
var contentTypes = []string{ContentType}

// NewMessage returns a NATS message with an encoded CloudEvent as its data, and with its Content-Type.
func NewMessage(subject string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{"Content-Type": contentTypes}, Data: data}
}
