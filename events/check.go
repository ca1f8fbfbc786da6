package events

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/object"
)

// These checks accept exactly what the schemas in schema/ accept; a test compares the two. Each
// returns the first fault, which begins with the field's path.

const (
	inboxPrefix = "_INBOX."
	maxInbox    = 255
	maxName     = 253     // characters in the name of a Kubernetes object
	maxLabel    = 63      // characters in a label value, and in a namespace
	maxSource   = 1 << 10 // characters
	maxReplayOf = 255     // characters
	maxUID      = 128     // characters
)

// payload is the data of an event.
type payload interface {
	check() error
	// addressee returns the runtime or the binding that the event is for, and the inbox for copies of
	// replies.
	addressee() (runtimeID, binding, replyTo string)
	// token returns the required last token of the subject, "" if any global account id may stand
	// there.
	token() string
}

func (e *Event) checkAttributes() error {
	return cmp.Or(checkLength("source", e.Source, maxSource), checkLength("replayof", e.ReplayOf, maxReplayOf))
}

func checkLength(field, value string, most int) error {
	if n := utf8.RuneCountInString(value); n > most {
		return fmt.Errorf("%s has %d characters, more than the %d allowed", field, n, most)
	}
	return nil
}

func (p *Provision) check() error {
	return cmp.Or(
		checkID("data.runtimeID", p.RuntimeID),
		checkID("data.globalAccountID", p.GlobalAccountID),
		checkGiven("data.plan", p.Plan),
		checkLabel("data.plan", p.Plan),
		checkLabel("data.platformRegion", p.PlatformRegion),
		checkLabel("data.hyperscalerRegion", p.HyperscalerRegion),
		checkLabel("data.provider", p.Provider),
		checkName("data.shootName", p.ShootName, maxName),
		checkInbox(p.ReplyTo),
		p.Cluster.check(),
		p.Interface.check(),
	)
}

func (p *Provision) addressee() (runtimeID, binding, replyTo string) {
	return p.RuntimeID, "", p.ReplyTo
}

func (p *Provision) token() string { return p.GlobalAccountID }

func (d *Deprovision) check() error {
	return cmp.Or(
		checkID("data.runtimeID", d.RuntimeID),
		checkOptionalID("data.globalAccountID", d.GlobalAccountID),
		checkName("data.shootName", d.ShootName, maxName),
		checkInbox(d.ReplyTo),
	)
}

func (d *Deprovision) addressee() (runtimeID, binding, replyTo string) {
	return d.RuntimeID, "", d.ReplyTo
}

func (d *Deprovision) token() string { return d.GlobalAccountID }

func (r *Release) check() error {
	if r.Generation != nil && (*r.Generation < 0 || *r.Generation > object.MaxWhole) {
		return fmt.Errorf("data.generation is %d, must be from 0 to 2^53-1", *r.Generation)
	}
	return cmp.Or(checkBinding(r.Binding), checkLength("data.uid", r.UID, maxUID), checkInbox(r.ReplyTo))
}

func (r *Release) addressee() (runtimeID, binding, replyTo string) { return "", r.Binding, r.ReplyTo }
func (r *Release) token() string                                   { return contract.Token(r.Binding) }

func (r *Resolve) check() error {
	return cmp.Or(
		checkID("data.runtimeID", r.RuntimeID),
		checkOptionalID("data.globalAccountID", r.GlobalAccountID),
		r.Interface.check(),
		checkInbox(r.ReplyTo),
	)
}

func (r *Resolve) addressee() (runtimeID, binding, replyTo string) { return r.RuntimeID, "", r.ReplyTo }
func (r *Resolve) token() string                                   { return r.RuntimeID }

func (c *Cluster) check() error {
	if c == nil {
		return nil
	}
	return cmp.Or(
		checkName("data.cluster.name", c.Name, maxName),
		checkName("data.cluster.namespace", c.Namespace, maxLabel),
	)
}

func (i *Interface) check() error {
	if i == nil {
		return nil
	}
	return checkGiven("data.interface.path", i.Path)
}

// check runs before encoding and after decoding: workers write no reply that readers cannot use, and
// readers take no other message for a reply.
func (r *Reply) check() error {
	if err := cmp.Or(checkID("data.requestID", r.RequestID), checkOptionalID("data.runtimeID", r.RuntimeID)); err != nil {
		return err
	}
	switch {
	case r.Status == "":
		return missing("data.status")
	case !r.Final() && r.Status != StatusWaiting && r.Status != StatusSealed:
		return fmt.Errorf("data.status %s is unknown", object.Quote(string(r.Status)))
	case r.Status == StatusRejected && r.Error == nil:
		return missing("data.error")
	}
	return cmp.Or(r.Cluster.check(), r.checkParts(), r.checkLists())
}

func (r *Reply) checkParts() error {
	given := make([]error, 0, 6) // enough for most replies, without an allocation
	if r.Waiting != nil {
		given = append(given, checkGiven("data.waiting.reason", string(r.Waiting.Reason)))
	}
	if r.Binding != nil {
		given = append(given, checkGiven("data.binding.name", r.Binding.Name))
	}
	if r.Implementation != nil {
		given = append(given,
			checkGiven("data.implementation.path", r.Implementation.Path),
			checkGiven("data.implementation.revision", r.Implementation.Revision))
		for _, i := range r.Implementation.Inject {
			given = append(given,
				checkGiven("data.implementation.inject.name", i.Name), checkGiven("data.implementation.inject.id", i.ID))
		}
	}
	if r.Error != nil {
		given = append(given,
			checkGiven("data.error.code", string(r.Error.Code)), checkGiven("data.error.message", r.Error.Message))
	}
	return cmp.Or(given...)
}

func (r *Reply) checkLists() error {
	for _, n := range r.Network {
		if err := cmp.Or(checkGiven("data.network.rule", n.Rule), checkGiven("data.network.cidr", n.CIDR)); err != nil {
			return err
		}
	}
	for _, p := range r.ShootPatch {
		if err := cmp.Or(checkGiven("data.shootPatch.op", p.Op), checkGiven("data.shootPatch.path", p.Path)); err != nil {
			return err
		}
	}
	if r.Decision == nil {
		return nil
	}
	for _, c := range r.Decision.Considered {
		if err := cmp.Or(
			checkGiven("data.decision.considered.binding", c.Binding),
			checkGiven("data.decision.considered.verdict", c.Verdict)); err != nil {
			return err
		}
	}
	return r.Decision.checkRecord()
}

func (d *Decision) checkRecord() error {
	for _, p := range d.Passed {
		if err := cmp.Or(checkGiven("data.decision.passed.rule", p.Rule), checkGiven("data.decision.passed.why", p.Why)); err != nil {
			return err
		}
	}
	for _, a := range d.Attempts {
		if err := cmp.Or(checkGiven("data.decision.attempts.binding", a.Binding), checkGiven("data.decision.attempts.result", a.Result)); err != nil {
			return err
		}
	}
	return nil
}

// CheckReply returns an *contract.Error with CodeInvalidEvent if no reply to a runtime's request can
// have these ids.
func CheckReply(runtimeID, requestID string) error {
	return invalidIf(cmp.Or(checkID("runtimeID", runtimeID), checkID("requestID", requestID)))
}

// CheckBindingReply is CheckReply for the reply to a release.
func CheckBindingReply(binding, requestID string) error {
	return invalidIf(cmp.Or(checkBinding(binding), checkID("requestID", requestID)))
}

func invalidIf(err error) error {
	if err == nil {
		return nil
	}
	return invalid(err)
}

func checkGiven(field, value string) error {
	if value == "" {
		return missing(field)
	}
	return nil
}

func checkID(field, id string) error {
	switch {
	case id == "":
		return missing(field)
	case !contract.ValidID(id):
		return fmt.Errorf("%s %s is no id: 1 to %d letters, digits, - and _, a letter or digit at both ends",
			field, object.Quote(id), contract.MaxID)
	}
	return nil
}

func checkOptionalID(field, id string) error {
	if id == "" {
		return nil
	}
	return checkID(field, id)
}

// checkLabel checks that a value is "" or written like a label value: regions and provider become part of the
// label hyperscalerType.
func checkLabel(field, value string) error {
	if labelValue(value) {
		return nil
	}
	return fmt.Errorf("%s %s cannot be part of a label value: at most %d letters, digits, '-', '_' and '.', a letter or digit at both ends",
		field, object.Quote(value), maxLabel)
}

// checkName checks the name of an object in Kubernetes; "" is allowed.
func checkName(field, name string, limit int) error {
	if name == "" || len(name) <= limit && kubernetesName(name) {
		return nil
	}
	return fmt.Errorf("%s %s is no name in Kubernetes: at most %d small letters, digits, '-' and '.', a letter or digit at both ends",
		field, object.Quote(name), limit)
}

// checkBinding checks only that there is a name, and its length: Gardener determines which bindings exist.
func checkBinding(name string) error {
	if n := utf8.RuneCountInString(name); n > maxName {
		return fmt.Errorf("data.binding has %d characters, at most %d are allowed", n, maxName)
	}
	return checkGiven("data.binding", name)
}

// checkInbox accepts "" and inboxes. No copy of a reply is sent to any other subject.
func checkInbox(replyTo string) error {
	if replyTo == "" || IsInbox(replyTo) {
		return nil
	}
	return fmt.Errorf("data.replyTo %s is not allowed: it must begin with %s, without wildcards, white space or empty tokens, in at most %d characters",
		object.Quote(replyTo), inboxPrefix, maxInbox)
}

// IsInbox reports whether copies of replies may be sent to the subject.
func IsInbox(subject string) bool {
	rest, ok := strings.CutPrefix(subject, inboxPrefix)
	if !ok || len(subject) > maxInbox {
		return false
	}
	previous := byte('.')
	for i := range len(rest) {
		c := rest[i]
		if c <= ' ' || c > '~' || c == '*' || c == '>' || c == '.' && previous == '.' {
			return false
		}
		previous = c
	}
	return previous != '.'
}

func labelValue(s string) bool {
	for i := range len(s) {
		middle := i > 0 && i < len(s)-1
		if c := s[i]; !alphanumeric(c) && (!middle || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return len(s) <= maxLabel
}

func kubernetesName(s string) bool {
	for i := range len(s) {
		middle := i > 0 && i < len(s)-1
		if c := s[i]; !alphanumeric(c) && (!middle || c != '-' && c != '.') || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
