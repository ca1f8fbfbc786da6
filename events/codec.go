package events

import (
	"cmp"
	"errors"
	"fmt"
	"mime"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/object"
)

// ContentType is the value of the header Content-Type of every message:
// CloudEvents 1.0 in structured JSON mode.
const ContentType = "application/cloudevents+json"

// MaxMessage is the size limit, in bytes, of a published event.
const MaxMessage = 256 << 10

// maxKept is the size limit, in bytes, of an event that workers have stored. A stored event may be
// longer than the published one: workers also write optional attributes, and the trace that was in its
// headers. Both have size limits.
const maxKept = MaxMessage + 8<<10

// SpecVersion is the version of CloudEvents that all messages have.
const SpecVersion = "1.0"

// envelope is a CloudEvent whose data is read later.
type envelope struct {
	SpecVersion string         `json:"specversion"`
	ID          string         `json:"id"`
	Source      string         `json:"source"`
	Type        string         `json:"type"`
	Traceparent string         `json:"traceparent"`
	Tracestate  string         `json:"tracestate"`
	ReplayOf    string         `json:"replayof"`
	Data        jsontext.Value `json:"data"`
}

// outgoing is a CloudEvent that is about to be written.
type outgoing struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	DataContentType string `json:"datacontenttype"`
	Traceparent     string `json:"traceparent,omitzero"`
	Tracestate      string `json:"tracestate,omitzero"`
	ReplayOf        string `json:"replayof,omitzero"`
	Data            any    `json:"data"`
}

// Decode reads a message that was published on subject. Its error is an *contract.Error with
// CodeInvalidEvent that names the fault. The Event beside an error has the fields that
// could be read, without the payload; each id and the inbox is valid or "", so that the publisher can be
// answered where they are known. The Event shares no memory with data.
func Decode(subject string, header nats.Header, data []byte) (Event, error) {
	event, err := decode(subject, header, data, MaxMessage)
	if err == nil {
		return event, nil
	}
	return salvage(subject, header, data), &contract.Error{
		Code: contract.CodeInvalidEvent,
		Err:  err,
		Hint: "publish a corrected event under a new id",
	}
}

// DecodeKept decodes an event that workers have stored, which may be longer than a published one. Its
// error is the fault itself, not an *contract.Error. Do not use the Event beside an error, unlike that of
// Decode.
func DecodeKept(subject string, header nats.Header, data []byte) (Event, error) {
	return decode(subject, header, data, maxKept)
}

func decode(subject string, header nats.Header, data []byte, most int) (Event, error) {
	if len(data) > most {
		return Event{}, tooLong(data, most)
	}
	if err := checkContentType(header); err != nil {
		return Event{}, err
	}
	if event, ok := decodePlain(subject, header, data); ok {
		return event, nil
	}
	return decodeAny(subject, header, data)
}

// decodeAny decodes any valid message. Its error names the fault of an invalid one.
func decodeAny(subject string, header nats.Header, data []byte) (Event, error) {
	var env envelope
	if err := object.Read(data, &env, ""); err != nil {
		return Event{}, err
	}
	event, err := env.event(len(env.Data) > 0)
	if err != nil {
		return Event{}, err
	}
	event = find(event.Type).empty(event)
	event.trace(header)
	if err := object.Read(env.Data, event.given(), "data"); err != nil {
		return Event{}, err
	}
	return event, event.accept(subject)
}

// event checks the attributes and returns an Event that has them. hasData says whether the message has data.
func (env *envelope) event(hasData bool) (Event, error) {
	switch {
	case env.SpecVersion == "":
		return Event{}, missing("specversion")
	case env.SpecVersion != SpecVersion:
		return Event{}, fmt.Errorf("specversion is %s, only %s is known", object.Quote(env.SpecVersion), SpecVersion)
	case env.Type == "":
		return Event{}, missing("type")
	case env.ID == "":
		return Event{}, missing("id")
	case env.Source == "":
		return Event{}, missing("source")
	case !hasData:
		return Event{}, missing("data")
	}
	kind := typeOf(env.Type)
	if kind == "" {
		return Event{}, fmt.Errorf("type %s is unknown", object.Quote(env.Type))
	}
	if err := checkID("id", env.ID); err != nil {
		return Event{}, err
	}
	return Event{
		Type: kind, ID: env.ID, Source: env.Source, ReplayOf: env.ReplayOf,
		Traceparent: env.Traceparent, Tracestate: env.Tracestate,
	}, nil
}

func tooLong(data []byte, most int) error {
	return fmt.Errorf("the message has %d bytes, more than the %d allowed", len(data), most)
}

// accept checks attributes, data and subject, and sets RuntimeID, Binding and ReplyTo.
func (e *Event) accept(subject string) error {
	if err := cmp.Or(e.checkAttributes(), e.given().check()); err != nil {
		return err
	}
	e.address()
	return e.checkSubject(subject)
}

// address sets RuntimeID, Binding and ReplyTo from the payload.
func (e *Event) address() { e.RuntimeID, e.Binding, e.ReplyTo = e.given().addressee() }

// Addressed returns the event with RuntimeID, Binding and ReplyTo set from its payload, if it has a payload.
func (e Event) Addressed() Event {
	if e.given() != nil {
		e.address()
	}
	return e
}

// EncodeEvent writes an event as a CloudEvent, after the checks that Decode makes of its attributes and
// data. Its error is an *contract.Error with CodeInvalidEvent.
func EncodeEvent(e Event) ([]byte, error) { return encodeEvent(e, MaxMessage) }

// EncodeKept is EncodeEvent for an event that workers store. It may be longer than a published one.
func EncodeKept(e Event) ([]byte, error) { return encodeEvent(e, maxKept) }

func encodeEvent(e Event, most int) ([]byte, error) {
	if err := cmp.Or(checkID("id", e.ID), checkGiven("source", e.Source), e.checkAttributes()); err != nil {
		return nil, invalid(err)
	}
	payload := e.given()
	if payload == nil {
		return nil, invalid(fmt.Errorf("an event of type %s needs its data", object.Quote(string(e.Type))))
	}
	if err := payload.check(); err != nil {
		return nil, invalid(err)
	}
	e.boundTrace()
	data, err := json.Marshal(outgoing{
		SpecVersion: SpecVersion, ID: e.ID, Source: e.Source, Type: e.Type.CloudEvent(),
		DataContentType: "application/json", ReplayOf: e.ReplayOf,
		Traceparent: e.Traceparent, Tracestate: e.Tracestate, Data: payload,
	}, json.Deterministic(true))
	switch {
	case err != nil:
		return nil, invalid(fmt.Errorf("the event cannot be written as JSON: %w", err))
	case len(data) > most:
		return nil, invalid(tooLong(data, most))
	}
	return data, nil
}

// EncodeReply encodes a reply as the CloudEvent of source with the id <requestID>/<status>. The bytes are
// deterministic. It repairs invalid UTF-8, since a reply may quote a faulty event.
func EncodeReply(r Reply, source string) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("reply to %s: %w", object.Quote(r.RequestID), err)
	}
	if data, ok := encodePlain(&r, source); ok {
		return data, nil
	}
	return encodeAny(r, source)
}

// encodeAny encodes any valid reply. Its error says why the reply cannot be encoded.
func encodeAny(r Reply, source string) ([]byte, error) {
	data, err := json.Marshal(outgoing{
		SpecVersion: SpecVersion, ID: r.RequestID + "/" + string(r.Status), Source: source, Type: TypeReply,
		DataContentType: "application/json", Data: &r,
	}, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("reply to %s cannot be written as JSON: %w", r.RequestID, err)
	}
	return data, nil
}

// DecodeReply decodes a message of the ledger. Its error says why the message is no valid reply.
func DecodeReply(data []byte) (Reply, error) {
	var env envelope
	if err := object.Read(data, &env, ""); err != nil {
		return Reply{}, err
	}
	switch {
	case env.SpecVersion != SpecVersion:
		return Reply{}, fmt.Errorf("specversion is %s, only %s is known", object.Quote(env.SpecVersion), SpecVersion)
	case env.Type != TypeReply:
		return Reply{}, fmt.Errorf("type is %s, a reply has %s", object.Quote(env.Type), TypeReply)
	case env.Source == "":
		return Reply{}, missing("source")
	case len(env.Data) == 0:
		return Reply{}, missing("data")
	}
	var r Reply
	if err := object.Read(env.Data, &r, "data"); err != nil {
		return Reply{}, err
	}
	if err := r.check(); err != nil {
		return Reply{}, err
	}
	if want := r.RequestID + "/" + string(r.Status); env.ID != want {
		return Reply{}, fmt.Errorf("id is %s, the data say %s", object.Quote(env.ID), object.Quote(want))
	}
	return r, nil
}

func checkContentType(header nats.Header) error {
	given := HeaderValue(header, "Content-Type")
	if given == "" || given == ContentType {
		return nil
	}
	if media, _, err := mime.ParseMediaType(given); err == nil && media == ContentType {
		return nil
	}
	return fmt.Errorf("header Content-Type is %s, must be %s", object.Quote(given), ContentType)
}

func missing(field string) error { return fmt.Errorf("%s is missing", field) }

func invalid(err error) error {
	if _, ok := errors.AsType[*contract.Error](err); ok {
		return err
	}
	return &contract.Error{Code: contract.CodeInvalidEvent, Err: err}
}
