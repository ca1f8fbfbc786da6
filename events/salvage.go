package events

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine"
)

// salvage reads what it can of a message that Decode refuses, so that an error
// reply finds its way. Only what is valid by itself is taken over.
func salvage(subject string, header nats.Header, data []byte) Event {
	kind, token := subjectTokens(subject)
	event := Event{Type: kind}
	event.trace(header)

	top := map[string]string{}
	inner := map[string]string{}
	scan(data, top, inner)
	event.Source, event.ReplayOf = top["source"], top["replayof"]
	if given := top["type"]; given != "" {
		event.Type = typeOf(given)
	}
	event.ID = validOr(top["id"], idOfMessage(header))
	if inbox(inner["replyTo"]) {
		event.ReplyTo = inner["replyTo"]
	}
	event.salvageAddressee(inner, kind, token)
	return event
}

func (e *Event) salvageAddressee(inner map[string]string, kind Type, token string) {
	repeats := kind.Info().Token
	if cmp.Or(e.Type, kind).Info().Token != tokenBinding {
		e.RuntimeID = validOr(inner["runtimeID"], "")
		if e.RuntimeID == "" && repeats == tokenRuntime {
			e.RuntimeID = validOr(token, "")
		}
		return
	}
	if e.Binding = inner["binding"]; e.Binding == "" && repeats == tokenBinding {
		e.Binding, _ = engine.FromToken(token)
	}
	if checkBinding(e.Binding) != nil {
		e.Binding = ""
	}
}

// scan collects the strings among the message's members and its data's, as far
// as it is JSON. Of a name that is there twice the first counts.
func scan(message []byte, top, inner map[string]string) {
	dec := jsontext.NewDecoder(strings.NewReader(string(message)), jsontext.AllowDuplicateNames(true))
	members(dec, top, func(name string) bool {
		if name != "data" || dec.PeekKind() != '{' {
			return false
		}
		members(dec, inner, func(string) bool { return false })
		return true
	})
}

// members reads an object's string members into found. A member that own reports
// to have read is not touched.
func members(dec *jsontext.Decoder, found map[string]string, own func(name string) bool) {
	if dec.PeekKind() != '{' {
		return
	}
	if _, err := dec.ReadToken(); err != nil {
		return
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return
		}
		name := token.String()
		if own(name) {
			continue
		}
		if dec.PeekKind() != '"' {
			if dec.SkipValue() != nil {
				return
			}
			continue
		}
		value, err := dec.ReadToken()
		if err != nil {
			return
		}
		if _, twice := found[name]; !twice {
			found[name] = value.String()
		}
	}
	_, _ = dec.ReadToken() // the closing brace; where it is missing, the next read fails too
}

// idOfMessage is the request id in the header Nats-Msg-Id, <type>/<id>.
func idOfMessage(header nats.Header) string {
	_, id, _ := strings.Cut(header.Get(nats.MsgIdHdr), "/")
	return id
}

// validOr is the first of the two that is an id, or "".
func validOr(id, other string) string {
	switch {
	case engine.ValidID(id):
		return id
	case engine.ValidID(other):
		return other
	default:
		return ""
	}
}
