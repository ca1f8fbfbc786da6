package storage

import (
	"cmp"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events/object"

	"github.com/hap-worker/hap-worker/events"
)

// Fact is the part of a stored reply that a rebuild of Redis needs.
type Fact struct {
	RuntimeID       string
	RequestID       string
	GlobalAccountID string
	Status          events.Status
	Code            engine.Code // of the error, "" for none
	Pool            string
	Binding         string
	Sequence        int64 // of the decision
	Claimed         bool  // this very request claimed the binding
	Generation      int64 // of the claim of the binding
	// Foreign is set if the message cannot be read; nothing else is set then.
	Foreign *events.Foreign
	// The subject, sequence and time of the reply in the stream; zero if it was not read from there.
	Subject  string
	Position uint64
	Time     time.Time
	// Published is when the stream stored the request; zero if the reply does not say.
	Published time.Time
}

// FactOf returns the Fact of a reply, without its place in the stream (Subject, Position and Time).
func FactOf(r events.Reply) Fact {
	f := Fact{RuntimeID: r.RuntimeID, RequestID: r.RequestID, GlobalAccountID: r.GlobalAccountID, Status: r.Status}
	if r.Error != nil {
		f.Code = r.Error.Code
	}
	if r.Decision != nil {
		f.Pool, f.Sequence = r.Decision.Pool, r.Decision.Sequence
		if t := r.Decision.Times; t != nil {
			f.Published = t.Published
		}
	}
	if r.Binding != nil {
		f.Binding, f.Claimed, f.Generation = r.Binding.Name, r.Binding.Claimed, r.Binding.Generation
	}
	return f
}

// factReader decodes facts. It interns names such as a pool's: a ledger of a million replies contains
// few different ones.
type factReader struct {
	names map[string]string
	into  factMessage
}

// factMessage is the part of a message that a fact is made of.
type factMessage struct {
	Type string   `json:"type"`
	Data factData `json:"data"`
}

type factData struct {
	RequestID       string        `json:"requestID"`
	RuntimeID       string        `json:"runtimeID"`
	Status          events.Status `json:"status"`
	GlobalAccountID string        `json:"globalAccountID"`
	Binding         struct {
		Name    string `json:"name"`
		Claimed bool   `json:"claimed"`

		Generation int64 `json:"generation"`
	} `json:"binding"`
	Decision struct {
		Sequence int64  `json:"sequence"`
		Pool     string `json:"pool"`
		Times    struct {
			Published time.Time `json:"published"`
		} `json:"times"`
	} `json:"decision"`
	Error struct {
		Code engine.Code `json:"code"`
	} `json:"error"`
}

func (f *factReader) fact(data []byte) (Fact, error) {
	f.into = factMessage{}
	if err := json.Unmarshal(data, &f.into, jsontext.AllowDuplicateNames(true)); err != nil {
		// Decode the whole message again, for a better error text.
		_, fault := events.DecodeReply(data)
		return Fact{}, cmp.Or(fault, err)
	}
	m := &f.into.Data
	says := m.Status.Final() || m.Status == events.StatusWaiting || m.Status == events.StatusSealed
	if f.into.Type != events.TypeReply || !says || m.RuntimeID != "" && !engine.ValidID(m.RuntimeID) {
		_, fault := events.DecodeReply(data)
		return Fact{}, cmp.Or(fault, fmt.Errorf("type %s, status %s, runtime %s",
			object.Quote(f.into.Type), object.Quote(string(m.Status)), object.Quote(m.RuntimeID)))
	}
	return Fact{
		RuntimeID: m.RuntimeID, RequestID: m.RequestID, GlobalAccountID: f.once(m.GlobalAccountID),
		Status: events.Status(f.once(string(m.Status))), Code: engine.Code(f.once(string(m.Error.Code))),
		Pool: f.once(m.Decision.Pool), Binding: f.once(m.Binding.Name),
		Sequence: m.Decision.Sequence, Claimed: m.Binding.Claimed, Generation: m.Binding.Generation, Published: m.Decision.Times.Published,
	}, nil
}

// once returns the interned string that equals name.
func (f *factReader) once(name string) string {
	kept, known := f.names[name]
	if !known {
		if f.names == nil {
			f.names = map[string]string{}
		}
		f.names[name], kept = name, name
	}
	return kept
}

// Answer converts the fact to the protocol's account.Answer. State is "" if the reply says nothing about the
// state of the runtime, such as a reply to a resolve.
func (f Fact) Answer() account.Answer {
	a := account.Answer{
		Pool: f.Pool, Runtime: f.RuntimeID, Request: f.RequestID, Tenant: f.GlobalAccountID,
		Binding: f.Binding, Sequence: f.Sequence, Claimed: f.Claimed, Generation: f.Generation,
	}
	switch {
	case f.Status == events.StatusAssigned:
		a.State = account.RuntimeAssigned
	case f.Status == events.StatusReleased, f.Code == engine.CodeSuperseded:
		a.State = account.RuntimeGone
	case f.Status == events.StatusWaiting:
		a.State = account.RuntimeWaiting
	case f.Code.Info().AfterWaiting:
		a.State = account.RuntimeRefused
	}
	return a
}
