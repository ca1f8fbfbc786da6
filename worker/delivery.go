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

// delivery is an event as it reached this worker, from the stream or out of the waiting
// room. It never changes.
type delivery struct {
	event     events.Event
	invalid   error     // why it can never be processed
	subject   string    // of the reply, "" where too little could be read
	number    uint64    // counts deliveries from 1
	sequence  uint64    // in the stream of events
	published time.Time // when the stream stored it; zero for a request that waits

	served bool // it comes out of the waiting room, not out of the stream
	inTurn bool // it is its turn among those who wait
}

// decode reads a message.
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

// tenant is the global account that the event names, "" for none.
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

// attempt is how far this worker has come with a delivery.
type attempt struct {
	delivery

	again   bool      // a reply may be stored already: it is read before anything is decided
	expect  uint64    // the last sequence of the reply's subject, as it was read when handling began
	taken   bool      // the reply stored last says that the id is this event's
	sent    bool      // a reply was published that is stored, or may be yet
	waited  bool      // a request may lie in the waiting room
	until   time.Time // the end of its waiting, once that is known
	room    string    // the pool that it is in the waiting room for, where it is served from there
	entered time.Time // when it came in for that pool, by the clock of NATS
	begun   time.Time // when it began to wait
	moves   time.Time // when it is tried anew, as its rule leads to another pool
	since   int64     // the number under which it waits, as its stored reply says

	pool     string                   // that it was decided on
	decision int64                    // the number of the last decision about it
	held     ranges.Held              // the network blocks that it relies on
	left     []string                 // other handlings of the request that rely on network blocks while it waits
	lasting  func(relier string) bool // reports whether one of these has done so for longer than a handling lasts
	name     string                   // tells it from others that handle the same event, "" before that matters
	trace    decisionTrace            // what its decision record will tell
}

// begin begins to handle a delivery.
func (h *Handler) begin(d delivery) *attempt {
	return &attempt{delivery: d, again: d.number > 1 || d.served, trace: decisionTrace{times: events.Times{Published: d.published, Began: h.now()}}}
}

// id names this handling among those that have the event in hand at the same
// time: every worker serves a request that waits.
func (a *attempt) id() string {
	if a.name == "" {
		a.name = strconv.FormatUint(rand.Uint64(), 36)
	}
	return network.Attempt(a.event.ID, a.name)
}

// relier names what relies on network blocks: this handling, as long as it publishes after
// the sequence that it has read. Once another reply is stored, nothing is answered with
// blocks of that name any more.
func (a *attempt) relier() string { return network.Attempt(a.id(), strconv.FormatUint(a.expect, 36)) }

// told is the fact that the event has come to an outcome.
func (d *delivery) told(subject string, out outcome) observe.Event {
	return observe.Event{
		Type: d.kind(), ID: d.event.ID, Tenant: d.tenant(), Runtime: d.event.RuntimeID, Subject: subject, Delivery: d.number,
		Binding: out.binding, Status: string(out.status), Code: out.code, Reason: out.reason, Outcome: out.verdict,
	}
}
