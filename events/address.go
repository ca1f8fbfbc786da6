package events

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/object"
)

// subjectTokens returns the last two tokens of an event's subject, whatever its prefix: the type ("" if
// it is unknown), and the tenant, binding or runtime.
func subjectTokens(subject string) (Type, string) {
	head, token, _ := cutLast(subject)
	_, kind, _ := cutLast(head)
	return known(kind), token
}

func cutLast(subject string) (before, after string, found bool) {
	if i := strings.LastIndexByte(subject, '.'); i >= 0 {
		return subject[:i], subject[i+1:], true
	}
	return "", subject, false
}

// TenantIn returns the global account that the subject of an event names, with any prefix; "" if it
// names none.
func TenantIn(subject string) string {
	kind, token := subjectTokens(subject)
	if kind.Info().Token != tokenTenant || token == AnyTenant || !contract.ValidID(token) {
		return ""
	}
	return token
}

// Tenant returns the global account that the event names, "" if it names none or cannot be read.
func (e Event) Tenant() string {
	switch {
	case e.Provision != nil:
		return e.Provision.GlobalAccountID
	case e.Deprovision != nil:
		return e.Deprovision.GlobalAccountID
	case e.Resolve != nil:
		return e.Resolve.GlobalAccountID
	default:
		return ""
	}
}

// checkSubject returns an error if the subject contradicts the type or the data of the event.
func (e *Event) checkSubject(subject string) error {
	kind, token := subjectTokens(subject)
	if kind != e.Type {
		return fmt.Errorf("subject %s is not one for type %s", subject, e.Type.CloudEvent())
	}
	want := e.given().token()
	switch {
	case want == "" && !contract.ValidID(token):
		return fmt.Errorf("the last token of subject %s is no global account id", subject)
	case want != "" && token != want:
		return fmt.Errorf("subject %s ends in %s, must end in %s for data.%s", subject, token, object.Quote(want), e.Type.Info().Token)
	}
	return nil
}

// subject returns the subject on which the event is published.
func (e *Event) subject(s Subjects) string {
	return s.join(string(e.Type), cmp.Or(e.given().token(), AnyTenant))
}

// trace takes traceparent and tracestate from the header if it has a valid traceparent. Otherwise the
// event keeps its trace context. Then trace drops what is too long.
func (e *Event) trace(header nats.Header) {
	if parent := HeaderValue(header, "traceparent"); validTraceparent(parent) {
		e.Traceparent = parent
		e.Tracestate = HeaderValue(header, "tracestate")
	}
	e.boundTrace()
}

// The size limits, in bytes, of the trace context that is kept with an event. By W3C Trace Context a
// traceparent of version 00 has 55 bytes, and a tracestate of up to 512 should be propagated.
const (
	maxTraceparent = 128
	maxTracestate  = 512
)

// boundTrace drops a tracestate that is too long, and both fields if the traceparent is too long. The
// event is valid without them.
func (e *Event) boundTrace() {
	if len(e.Traceparent) > maxTraceparent {
		e.Traceparent, e.Tracestate = "", ""
	}
	if len(e.Tracestate) > maxTracestate {
		e.Tracestate = ""
	}
}

// validTraceparent reports whether the text is a valid traceparent by W3C Trace Context, section 3.2:
// fields in lower-case hexadecimal digits, with a trace id and a parent id that are not zero. Versions
// after 00 may append fields.
func validTraceparent(text string) bool {
	const shape = "00-00000000000000000000000000000000-0000000000000000-00"
	if len(text) < len(shape) || strings.HasPrefix(text, "ff") {
		return false
	}
	rest := text[len(shape):]
	if rest != "" && (strings.HasPrefix(text, "00") || rest[0] != '-') {
		return false
	}
	for i := range shape {
		digit := '0' <= text[i] && text[i] <= '9' || 'a' <= text[i] && text[i] <= 'f'
		if digit != (shape[i] == '0') || !digit && text[i] != '-' {
			return false
		}
	}
	return text[3:35] != shape[3:35] && text[36:52] != shape[36:52]
}

// HeaderValue returns the first value of a header, "" if there is none. It ignores the case of the
// name: NATS keeps names as they were sent, and publishers differ.
func HeaderValue(header nats.Header, name string) string {
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
