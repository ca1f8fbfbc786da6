package events

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/hap-worker/hap-worker/events/contract"
)

// The names of the streams and of the consumers.
const (
	StreamEvents  = "HAP_EVENTS"
	StreamReplies = "HAP_REPLIES"
	StreamWaiting = "HAP_WAITING"
	StreamDead    = "HAP_DEAD"

	// StreamComparisons exists only for a shadow. It has the comparisons of KEB's choices with the shadow's.
	StreamComparisons = "HAP_SHADOW_COMPARISONS"

	ConsumerWorker = "hap-worker" // durable, on StreamEvents and on the shadow's copy of it
	ConsumerShadow = "hap-shadow" // durable, on StreamEvents while no worker has a consumer there
)

const (
	streamsBegin  = "HAP_"
	shadowStreams = "HAP_SHADOW_"
)

// DefaultPrefix begins every subject unless configured otherwise.
const DefaultPrefix = "hap.v1"

// AnyTenant is the last token of the subject of a deprovision that names no global account.
const AnyTenant = "unknown"

// bindingReplies stands for the runtime in the subject of the reply to a release. No
// runtime can have this name, since an id begins with a letter or a digit.
const bindingReplies = "_binding"

// Subjects builds and reads the subjects that begin with one prefix, and names the
// streams that have them.
type Subjects struct {
	prefix string
	shadow bool
}

// NewSubjects returns the subjects under prefix, one or more tokens; "" is
// DefaultPrefix. A prefix with an empty token, a wildcard or a character outside
// [A-Za-z0-9_-] is an error.
func NewSubjects(prefix string) (Subjects, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	for token := range strings.SplitSeq(prefix, ".") {
		if token == "" || contract.Token(token) != token {
			return Subjects{}, fmt.Errorf("subject prefix %q: every token needs letters, digits, - or _ and nothing else", prefix)
		}
	}
	return Subjects{prefix: prefix}, nil
}

// Prefix returns the prefix of every subject, without the trailing dot.
func (s Subjects) Prefix() string { return s.prefix }

// Shadow returns the subjects of a shadow. Their prefix is that of s and the token shadow, and they have
// separate streams, so that no publisher and no worker sees their messages.
func (s Subjects) Shadow() Subjects { return Subjects{prefix: s.prefix + ".shadow", shadow: true} }

// Stream returns the name of the stream that has these subjects: for workers the name itself, which is one of
// the constants such as StreamEvents, and for a shadow the name of the shadow's stream of the same kind.
func (s Subjects) Stream(name string) string {
	if !s.shadow {
		return name
	}
	return shadowStreams + strings.TrimPrefix(name, streamsBegin)
}

// Provision returns the subject of a tenant's provision events.
func (s Subjects) Provision(globalAccountID string) string {
	return s.join("provision", globalAccountID)
}

// Deprovision returns the subject of a tenant's deprovision events; "" is AnyTenant.
func (s Subjects) Deprovision(globalAccountID string) string {
	return s.join("deprovision", cmp.Or(globalAccountID, AnyTenant))
}

// Release returns the subject of the release events for a binding.
func (s Subjects) Release(binding string) string {
	return s.join("release", contract.Token(binding))
}

// Resolve returns the subject of the resolve events of a runtime.
func (s Subjects) Resolve(runtimeID string) string { return s.join("resolve", runtimeID) }

// Reply returns the subject of the reply to a request for a runtime.
func (s Subjects) Reply(runtimeID, requestID string) string {
	return s.join("reply", runtimeID, requestID)
}

// BindingReply returns the subject of the reply to a release.
func (s Subjects) BindingReply(binding, requestID string) string {
	return s.join("reply", bindingReplies, contract.Token(binding), requestID)
}

// RuntimeReplies matches every reply to a request for a runtime. A worker purges the subjects that match when it
// forgets a runtime that was released long ago.
func (s Subjects) RuntimeReplies(runtimeID string) string { return s.join("reply", runtimeID, "*") }

// RequestReplies match the replies to the requests with an id, for all runtimes and bindings.
func (s Subjects) RequestReplies(requestID string) []string {
	return []string{s.join("reply", "*", requestID), s.join("reply", bindingReplies, "*", requestID)}
}

// BindingReplies matches the replies to the releases of a binding.
func (s Subjects) BindingReplies(binding string) string {
	return s.join("reply", bindingReplies, contract.Token(binding), "*")
}

// Waiting returns the subject of a request that waits for a pool.
func (s Subjects) Waiting(pool, globalAccountID, runtimeID, requestID string) string {
	return s.join("waiting", contract.Token(pool), globalAccountID, runtimeID, requestID)
}

// RuntimeWaiting matches the waiting requests of a runtime, in all pools.
func (s Subjects) RuntimeWaiting(runtimeID string) string {
	return s.WaitingOf(WaitingAddress{RuntimeID: runtimeID})
}

// Dead returns the subject of the dead letters of a type. For a type that this package does not know,
// the last token is UnknownType.
func (s Subjects) Dead(t Type) string {
	return s.join("dead", cmp.Or(string(known(t)), UnknownType))
}

// Events match everything that publishers send.
func (s Subjects) Events() []string {
	subjects := make([]string, len(types))
	for i := range types {
		subjects[i] = s.join(string(types[i].Type), "*")
	}
	return subjects
}

// TenantEvents matches a tenant's provision and deprovision events, and events about a runtime or
// binding of that name.
func (s Subjects) TenantEvents(globalAccountID string) string { return s.join("*", globalAccountID) }

// Replies matches every reply.
func (s Subjects) Replies() string { return s.join("reply", ">") }

// AllWaiting matches every waiting request.
func (s Subjects) AllWaiting() string { return s.join("waiting", ">") }

// AllDead matches every dead letter.
func (s Subjects) AllDead() string { return s.join("dead", ">") }

func (s Subjects) join(tokens ...string) string {
	size := len(s.prefix)
	for _, token := range tokens {
		size += len(".") + len(token)
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteString(s.prefix)
	for _, token := range tokens {
		b.WriteByte('.')
		b.WriteString(token)
	}
	return b.String()
}

// WaitingOf matches the waiting requests with the address a; an empty field of a matches any value.
func (s Subjects) WaitingOf(a WaitingAddress) string {
	pool := "*"
	if a.Pool != "" {
		pool = contract.Token(a.Pool)
	}
	return s.join("waiting", pool, cmp.Or(a.GlobalAccountID, "*"), cmp.Or(a.RuntimeID, "*"), cmp.Or(a.RequestID, "*"))
}

// ReplyAddress names the owner of the reply on a subject: a runtime or, for a release, a binding.
type ReplyAddress struct {
	RuntimeID string
	Binding   string // of a release; then RuntimeID is ""
	RequestID string
}

// ParseReply reads a subject made by Reply or BindingReply.
func (s Subjects) ParseReply(subject string) (ReplyAddress, error) {
	tokens := s.tokens(subject, "reply")
	switch {
	case len(tokens) == 2 && contract.ValidID(tokens[0]) && contract.ValidID(tokens[1]):
		return ReplyAddress{RuntimeID: tokens[0], RequestID: tokens[1]}, nil
	case len(tokens) == 3 && tokens[0] == bindingReplies && tokens[1] != "" && contract.ValidID(tokens[2]):
		binding, err := contract.FromToken(tokens[1])
		if err != nil {
			return ReplyAddress{}, fmt.Errorf("reply subject %s: %w", subject, err)
		}
		return ReplyAddress{Binding: binding, RequestID: tokens[2]}, nil
	default:
		return ReplyAddress{}, fmt.Errorf("%q is no reply subject under %s", subject, s.prefix)
	}
}

// WaitingAddress has the parts of the subject of a waiting request.
type WaitingAddress struct {
	Pool            string
	GlobalAccountID string
	RuntimeID       string
	RequestID       string
}

// ParseWaiting reads a subject made by Waiting.
func (s Subjects) ParseWaiting(subject string) (WaitingAddress, error) {
	tokens := s.tokens(subject, "waiting")
	if len(tokens) != 4 || tokens[0] == "" ||
		!contract.ValidID(tokens[1]) || !contract.ValidID(tokens[2]) || !contract.ValidID(tokens[3]) {
		return WaitingAddress{}, fmt.Errorf("%q is no subject of a waiting request under %s", subject, s.prefix)
	}
	pool, err := contract.FromToken(tokens[0])
	if err != nil {
		return WaitingAddress{}, fmt.Errorf("waiting subject %s: %w", subject, err)
	}
	return WaitingAddress{Pool: pool, GlobalAccountID: tokens[1], RuntimeID: tokens[2], RequestID: tokens[3]}, nil
}

// Compared returns the subject of the comparison of a request. Only a shadow has such a subject.
func (s Subjects) Compared(runtimeID, requestID string) string {
	return s.join("compared", runtimeID, requestID)
}

// AllCompared matches every comparison.
func (s Subjects) AllCompared() string { return s.join("compared", ">") }

// tokens returns the tokens after prefix and kind, nil if the subject begins with something else.
func (s Subjects) tokens(subject, kind string) []string {
	rest, ok := strings.CutPrefix(subject, s.prefix+"."+kind+".")
	if !ok {
		return nil
	}
	return strings.Split(rest, ".")
}
