package events

import (
	"slices"
	"strings"
)

// Type is the kind of an event, as the last token but one of its subject names it. The CloudEvents type contains
// it: provision is hap.provision.v1.
type Type string

// The types of events; Types describes each. The CloudEvents type of a reply is hap.reply.v1.
const (
	TypeProvision   Type = "provision"
	TypeDeprovision Type = "deprovision"
	TypeRelease     Type = "release"
	TypeResolve     Type = "resolve"
)

// UnknownType stands in metrics and in the subject of a dead letter for a type that
// this package does not know.
const UnknownType = "unknown"

// The member of the data that the last token of a subject repeats.
const (
	tokenTenant  = "globalAccountID"
	tokenRuntime = "runtimeID"
	tokenBinding = "binding"
)

const (
	cloudEventBegins = "hap."
	cloudEventEnds   = ".v1"
)

// CloudEvent is the type attribute of the CloudEvents envelope.
func (t Type) CloudEvent() string { return cloudEventBegins + string(t) + cloudEventEnds }

// TypeInfo has the properties that all events of a type share. docs/messages.md has the same table.
type TypeInfo struct {
	Type      Type
	Publisher string // for docs/messages.md
	Token     string // the member of the data that the last token of the subject repeats

	Answer Status // the status of the final reply to a request that succeeded; every type may be rejected
	Waits  bool   // StatusWaiting may come before the final reply
	Allots bool   // it changes the allotment in Redis

	given func(Event) payload // the payload that is set, or nil
	empty func(Event) Event   // with an empty payload; by value, so that no Event escapes to the heap
}

// Statuses returns the statuses that a publisher of the type may get, the final ones first.
func (i TypeInfo) Statuses() []Status {
	statuses := []Status{i.Answer, StatusRejected}
	if i.Waits {
		statuses = append(statuses, StatusWaiting)
	}
	return statuses
}

var types = []TypeInfo{
	row(func(e Event) *Provision { return e.Provision }, func(e Event, p *Provision) Event { e.Provision = p; return e }, TypeInfo{
		Type: TypeProvision, Publisher: "KEB", Token: tokenTenant,
		Answer: StatusAssigned, Waits: true, Allots: true,
	}),
	row(func(e Event) *Deprovision { return e.Deprovision }, func(e Event, p *Deprovision) Event { e.Deprovision = p; return e }, TypeInfo{
		Type: TypeDeprovision, Publisher: "KEB, once the shoot is gone", Token: tokenTenant,
		Answer: StatusReleased, Allots: true,
	}),
	row(func(e Event) *Release { return e.Release }, func(e Event, p *Release) Event { e.Release = p; return e }, TypeInfo{
		Type: TypeRelease, Publisher: "the subscription cleanup job, once the account is emptied", Token: tokenBinding,
		Answer: StatusReturned, Allots: true,
	}),
	row(func(e Event) *Resolve { return e.Resolve }, func(e Event, p *Resolve) Event { e.Resolve = p; return e }, TypeInfo{
		Type: TypeResolve, Publisher: "anyone", Token: tokenRuntime,
		Answer: StatusResolved,
	}),
}

// row sets the functions of info that return and create a payload P of an event.
func row[P any, Pointer interface {
	*P
	payload
}](of func(Event) *P, with func(Event, *P) Event, info TypeInfo) TypeInfo {
	info.empty = func(e Event) Event { return with(e, new(P)) }
	info.given = func(e Event) payload {
		if p := of(e); p != nil {
			return Pointer(p)
		}
		return nil
	}
	return info
}

// Types returns the table of all types, in the order of docs/messages.md.
func Types() []TypeInfo { return slices.Clone(types) }

// Info returns the properties of t; the zero TypeInfo for a type that this package
// does not know.
func (t Type) Info() TypeInfo {
	if i := find(t); i != nil {
		return *i
	}
	return TypeInfo{}
}

func find(t Type) *TypeInfo {
	for i := range types {
		if types[i].Type == t {
			return &types[i]
		}
	}
	return nil
}

// known returns t as the table's string, which keeps no message in memory, or "" for a type that this
// package does not know.
func known[Text ~string](t Text) Type {
	if i := find(Type(t)); i != nil {
		return i.Type
	}
	return ""
}

// typeOf returns the type of event for a CloudEvents type, "" if there is none.
func typeOf(cloudEvent string) Type {
	inner, begins := strings.CutPrefix(cloudEvent, cloudEventBegins)
	inner, ends := strings.CutSuffix(inner, cloudEventEnds)
	if !begins || !ends {
		return ""
	}
	return known(inner)
}

// NewEvent returns an event of type t with an empty payload. data points to that payload, for the
// caller to unmarshal JSON into. ok is false for a type that this package does not know.
func NewEvent(t Type) (e Event, data any, ok bool) {
	i := find(t)
	if i == nil {
		return Event{}, nil, false
	}
	e = i.empty(Event{Type: i.Type})
	return e, i.given(e), true
}

// given returns the payload that e.Type names; nil if it is not set, or if this package does not know the type.
func (e *Event) given() payload {
	if i := find(e.Type); i != nil {
		return i.given(*e)
	}
	return nil
}
