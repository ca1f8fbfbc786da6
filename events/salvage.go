package events

import (
	"cmp"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/object"
)

// salvage reads what it can from a message that Decode refuses, so that a worker can address the error
// reply. It keeps an id, binding or inbox only if it is valid by itself.
func salvage(subject string, header nats.Header, data []byte) Event {
	kind, token := subjectTokens(subject)
	event := Event{Type: kind}
	event.trace(header)

	top := map[string]string{}
	inner := map[string]string{}
	object.Strings(data, top, inner)
	event.Source, event.ReplayOf = top["source"], top["replayof"]
	if given := top["type"]; given != "" {
		event.Type = typeOf(given)
	}
	// A publisher of releases must not be able to have a provision rejected, nor the other way round:
	// the rejection would be the final answer to a request of another role.
	if event.Type != "" && kind != "" && event.Type.ofBinding() != kind.ofBinding() {
		event.Type = kind
	}
	event.ID = validOr(top["id"], idOfMessage(header))
	if IsInbox(inner["replyTo"]) {
		event.ReplyTo = inner["replyTo"]
	}
	event.salvageAddressee(inner, kind, token)
	return event
}

func (e *Event) salvageAddressee(inner map[string]string, kind Type, token string) {
	repeats := kind.Info().Token
	if !cmp.Or(e.Type, kind).ofBinding() {
		e.RuntimeID = validOr(inner["runtimeID"], "")
		if e.RuntimeID == "" && repeats == tokenRuntime {
			e.RuntimeID = validOr(token, "")
		}
		return
	}
	if e.Binding = inner["binding"]; e.Binding == "" && repeats == tokenBinding {
		e.Binding, _ = contract.FromToken(token)
	}
	if checkBinding(e.Binding) != nil {
		e.Binding = ""
	}
}

// ofBinding reports whether the reply to an event of the type is addressed to a binding, not to a
// runtime.
func (t Type) ofBinding() bool { return t.Info().Token == tokenBinding }

// idOfMessage returns the request id in the header Nats-Msg-Id: <type>/<id>, as older publishers write
// it, or <type>/<id>/<more>.
func idOfMessage(header nats.Header) string {
	_, rest, _ := strings.Cut(header.Get(nats.MsgIdHdr), "/")
	id, _, _ := strings.Cut(rest, "/")
	return id
}

// validOr returns the first of the two that is a valid id, "" if neither is.
func validOr(id, other string) string {
	switch {
	case contract.ValidID(id):
		return id
	case contract.ValidID(other):
		return other
	default:
		return ""
	}
}
