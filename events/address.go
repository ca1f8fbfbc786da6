package events

import (
	"cmp"
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
	return known(kind), token
}

func cutLast(subject string) (before, after string, found bool) {
	if i := strings.LastIndexByte(subject, '.'); i >= 0 {
		return subject[:i], subject[i+1:], true
	}
	return "", subject, false
}

// TenantIn returns the global account that the subject of an event names, whatever its
// prefix; "" where it names none.
func TenantIn(subject string) string {
	kind, token := subjectTokens(subject)
	if kind.Info().Token != tokenTenant || token == AnyTenant || !engine.ValidID(token) {
		return ""
	}
	return token
}

// Tenant returns the global account that the event names, "" where it names none or cannot be read.
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

// checkSubject holds the subject against what the message says.
func (e *Event) checkSubject(subject string) error {
	kind, token := subjectTokens(subject)
	if kind != e.Type {
		return fmt.Errorf("subject %s is not one for type %s", subject, e.Type.CloudEvent())
	}
	want := e.given().token()
	switch {
	case want == "" && !engine.ValidID(token):
		return fmt.Errorf("the last token of subject %s is no global account id", subject)
	case want != "" && token != want:
		return fmt.Errorf("subject %s ends in %s, but data.%s is %s", subject, token, e.Type.Info().Token, quote(want))
	}
	return nil
}

// subject is where an event is published.
func (e *Event) subject(s Subjects) string {
	return s.join(string(e.Type), cmp.Or(e.given().token(), AnyTenant))
}

// trace takes the trace context of the header where there is one. One that is not valid replaces
// none: what stands in the event may be.
func (e *Event) trace(header nats.Header) {
	if parent := headerValue(header, "traceparent"); validTraceparent(parent) {
		e.Traceparent = parent
		e.Tracestate = headerValue(header, "tracestate")
	}
	e.boundTrace()
}

// The longest trace context in bytes that is kept with an event. W3C Trace Context: a
// traceparent has 55, and a tracestate of 512 has to be propagated.
const (
	maxTraceparent = 128
	maxTracestate  = 512
)

// boundTrace drops what is too long of the trace context: an event does not fail by it.
func (e *Event) boundTrace() {
	if len(e.Traceparent) > maxTraceparent {
		e.Traceparent, e.Tracestate = "", ""
	}
	if len(e.Tracestate) > maxTracestate {
		e.Tracestate = ""
	}
}

// validTraceparent reports whether the text is a traceparent as W3C Trace Context, section 3.2,
// has it: version, trace and parent in lower-case hexadecimal digits, of which trace and parent
// are not zero. Versions after 00 may have more at the end.
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
