package events

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine"
)

// subjectTokens are the last two tokens of an event's subject, whatever its
// prefix: the type, and whom it is for.
func subjectTokens(subject string) (Type, string) {
	head, token, _ := cutLast(subject)
	_, kind, _ := cutLast(head)
	switch t := Type(kind); t {
	case TypeProvision, TypeDeprovision, TypeRelease, TypeResolve:
		return t, token
	default:
		return "", token
	}
}

func cutLast(subject string) (before, after string, found bool) {
	if i := strings.LastIndexByte(subject, '.'); i >= 0 {
		return subject[:i], subject[i+1:], true
	}
	return "", subject, false
}

// checkSubject holds the subject against what the message says.
func (e *Event) checkSubject(subject string) error {
	kind, token := subjectTokens(subject)
	if kind != e.Type {
		return fmt.Errorf("subject %s is not one for type %s", subject, e.Type.CloudEvent())
	}
	field, want := e.subjectToken()
	switch {
	case want == "" && !engine.ValidID(token):
		return fmt.Errorf("the last token of subject %s is no global account id", subject)
	case want != "" && token != want:
		return fmt.Errorf("subject %s ends in %s, but %s is %s", subject, token, field, quote(want))
	}
	return nil
}

// subjectToken is the field that the subject repeats, and the token that it must
// be there; "" where any id will do.
func (e *Event) subjectToken() (field, token string) {
	switch e.Type {
	case TypeProvision:
		return "data.globalAccountID", e.Provision.GlobalAccountID
	case TypeDeprovision:
		return "data.globalAccountID", e.Deprovision.GlobalAccountID
	case TypeRelease:
		return "data.binding", engine.Token(e.Binding)
	default:
		return "data.runtimeID", e.RuntimeID
	}
}

// subject is where an event is published.
func (e *Event) subject(s Subjects) string {
	switch e.Type {
	case TypeProvision:
		return s.Provision(e.Provision.GlobalAccountID)
	case TypeDeprovision:
		return s.Deprovision(e.Deprovision.GlobalAccountID)
	case TypeRelease:
		return s.Release(e.Release.Binding)
	default:
		return s.Resolve(e.Resolve.RuntimeID)
	}
}

// trace takes the trace context of the header where there is one.
func (e *Event) trace(header nats.Header) {
	if parent := headerValue(header, "traceparent"); parent != "" {
		e.Traceparent = parent
		e.Tracestate = headerValue(header, "tracestate")
	}
}

// headerValue is the first value of a header, whatever case its name is written
// in: NATS keeps names as they were sent, and publishers differ.
func headerValue(header nats.Header, name string) string {
	if value := header.Get(name); value != "" {
		return value
	}
	for key, values := range header {
		if len(values) > 0 && strings.EqualFold(key, name) {
			return values[0]
		}
	}
	return ""
}
