package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/crash"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// delivery is an event as this worker received it, from the stream or from the waiting room. It is
// immutable.
type delivery struct {
	event     events.Event
	invalid   error     // why the event can never be processed; nil for a valid one
	subject   string    // of the reply; "" if the event was too unreadable to tell
	number    uint64    // of the delivery, from 1
	sequence  uint64    // in the stream of events
	published time.Time // when the stream stored it; zero for a request from the waiting room

	served bool // it comes from the waiting room
	inTurn bool // it is the next of its queue, so it may claim
}

// decode decodes a message. A message that cannot be decoded sets delivery.invalid.
func (h *Handler) decode(msg jetstream.Msg) delivery {
	d := delivery{number: 1}
	if meta, err := msg.Metadata(); err == nil {
		d.number, d.sequence, d.published = meta.NumDelivered, meta.Sequence.Stream, meta.Timestamp
	}
	err := crash.Guard(func() error {
		d.event, d.invalid = events.Decode(msg.Subject(), msg.Headers(), msg.Data())
		return nil
	})
	if err != nil {
		h.observer.Retry(context.Background(), observe.Retry{Type: "decode", Err: err})
		d.event, d.invalid = events.Event{}, errors.New(shortly(err)) // the same bytes would panic again
	}
	d.subject = d.event.ReplySubject(h.subjects)
	return d
}

func (d *delivery) kind() string {
	if d.event.Type == "" {
		return "unknown"
	}
	return string(d.event.Type)
}

// tenant returns the global account that the event names, or "".
func (d *delivery) tenant() string {
	switch {
	case d.event.Provision != nil:
		return d.event.Provision.GlobalAccountID
	case d.event.Deprovision != nil:
		return d.event.Deprovision.GlobalAccountID
	default:
		return ""
	}
}

// attempt is the state of one handling of a delivery.
type attempt struct {
	delivery

	again   bool      // a reply may be stored already: read it before deciding anything
	expect  uint64    // last sequence of the reply's subject, read when handling began
	taken   bool      // the last stored reply reserves the id for this type of event
	sent    bool      // a reply was published, and is stored or may still be
	waited  bool      // the request may be in the waiting room
	until   time.Time // deadline of its waiting; zero while unknown
	room    string    // pool for which it is in the waiting room, if it is served from there
	entered time.Time // when it entered the room for that pool, by the clock of NATS
	begun   time.Time // when it began to wait
	moves   time.Time // when to try it again because its rule leads to another pool
	since   int64     // decision sequence in its stored waiting reply

	pool     string                   // pool that decided
	decision int64                    // sequence of the last decision
	held     ranges.Held              // network blocks that it relies on
	left     []string                 // other attempts at this request that rely on network blocks
	lasting  func(relier string) bool // reports whether such an attempt has been seen for longer than one can run
	name     string                   // random name among attempts at the same event; "" until id is called
	trace    decisionTrace            // input of the decision record
}

// begin returns a new attempt at a delivery.
func (h *Handler) begin(d delivery) *attempt {
	return &attempt{delivery: d, again: d.number > 1 || d.served, trace: decisionTrace{times: events.Times{Published: d.published, Began: h.now()}}}
}

// id returns a unique name of this attempt. Several workers may handle the same event at a time, since
// every worker serves the waiting room.
func (a *attempt) id() string {
	if a.name == "" {
		a.name = strconv.FormatUint(rand.Uint64(), 36)
	}
	return network.Attempt(a.event.ID, a.name)
}

// relier returns the name under which this attempt takes network blocks. It contains the sequence after
// which the reply is published: once another reply is stored, no answer can name these blocks.
func (a *attempt) relier() string { return network.Attempt(a.id(), strconv.FormatUint(a.expect, 36)) }

// told returns the event and its outcome as the observer gets them.
func (d *delivery) told(subject string, out outcome) observe.Event {
	return observe.Event{
		Type: d.kind(), ID: d.event.ID, Tenant: d.tenant(), Runtime: d.event.RuntimeID, Subject: subject, Delivery: d.number,
		Binding: out.binding, Status: string(out.status), Code: out.code, Reason: out.reason, Outcome: out.verdict,
	}
}
