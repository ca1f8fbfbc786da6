package worker

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/ranges"
	"github.com/hap-worker/hap-worker/worker/serving"
)

// attempt is the state of one handling of a delivery. Only this file assigns its fields.
type attempt struct {
	delivery
	name  string        // random name among attempts at the same event; "" until id is called
	trace decisionTrace // input of the decision record

	pool     string // pool of the runtime's place; "" until a provision has found it
	decision int64  // sequence of the last decision

	stored struct { // what the ledger has under the event's id
		possible bool   // a reply may be stored already: read it before deciding anything
		expect   uint64 // last known sequence of the reply's subject, 0 for no message; the next reply is published after it
		taken    bool   // the last stored reply reserves the id for this type of event
		sent     bool   // a reply was published, and is stored or may still be stored
	}
	waits struct { // where and for how long the request waits
		possible bool      // the request may be in the waiting room
		until    time.Time // deadline of its waiting; zero while unknown
		decision int64     // sequence of the decision in its stored waiting reply; 0 while unknown
		moves    time.Time // when to try it again because its rule leads to another pool; zero if it does not
		room     string    // pool for which it waits in the room, if it is served from there; otherwise ""
		entered  time.Time // when it entered the room for that pool, by the clock of NATS; zero if it is not served from there
		begun    time.Time // when it began to wait; zero if it is not served from the waiting room
	}
	blocks struct { // network blocks of the request
		held    ranges.Held              // those that this attempt relies on
		names   []string                 // earlier names of this attempt, whose blocks are not known to have been returned
		left    []string                 // attempts, perhaps this one too, whose blocks outlive has to return
		lasting func(relier string) bool // serving.Turn.Lasting; nil unless the request is served from the waiting room
	}
}

// begin returns a new attempt at a delivery.
func (h *Handler) begin(d delivery) *attempt {
	a := &attempt{delivery: d, trace: decisionTrace{times: events.Times{Published: d.published, Began: h.now()}}}
	a.stored.possible = d.number > 1 || d.served
	return a
}

// beginServed returns a new attempt at a request of the waiting room.
func (h *Handler) beginServed(t serving.Turn) *attempt {
	r := t.Request
	a := h.begin(delivery{event: r.Event, subject: r.Event.ReplySubject(h.subjects), number: 1, served: true, inTurn: t.Next})
	a.waits.possible, a.waits.until, a.waits.room, a.waits.entered, a.waits.begun = true, r.Deadline, r.Pool, r.Entered, r.Since
	a.blocks.lasting = t.Lasting
	return a
}

// id returns a unique name of this attempt, the same until rename. Several workers may handle the same event at a
// time, since every worker serves the waiting room.
func (a *attempt) id() string {
	if a.name == "" {
		a.name = strconv.FormatUint(rand.Uint64(), 36)
	}
	return network.Attempt(a.event.ID, a.name)
}

// relier returns the name under which this attempt takes network blocks. It contains the sequence after
// which the reply is published: once another reply is stored after it, a reply that names these blocks can no
// longer be stored.
func (a *attempt) relier() string {
	return network.Attempt(a.id(), strconv.FormatUint(a.stored.expect, 36))
}

// rename makes relier return other names than before: a return that Redis executes late, after its caller has given
// up, then frees no block that the attempt has taken since.
func (a *attempt) rename() {
	a.blocks.names, a.name = append(a.blocks.names, a.id()), ""
}

// The mark methods record what has happened to an attempt.
func (a *attempt) markUnsure()                   { a.stored.possible = true } // a reply may be stored
func (a *attempt) markSent(sent bool)            { a.stored.sent = sent }
func (a *attempt) markTaken(sequence uint64)     { a.stored.expect, a.stored.taken = sequence, true }
func (a *attempt) markEntering()                 { a.waits.possible = true }
func (a *attempt) markEntered(until time.Time)   { a.waits.until = until }
func (a *attempt) markElsewhere(moves time.Time) { a.waits.moves = moves }
func (a *attempt) markPlaced(pool string)        { a.pool = pool }
func (a *attempt) markHeld(held ranges.Held)     { a.blocks.held = held }
func (a *attempt) markLeft(reliers ...string)    { a.blocks.left = reliers }
func (a *attempt) markReturned(n int)            { a.blocks.names = a.blocks.names[n:] } // of the oldest n names

// markStored notes the last message of the reply's subject.
func (a *attempt) markStored(last events.Stored, found bool) {
	a.stored.expect, a.stored.taken = last.Sequence, last.Reply.For == a.event.Type && found
}

// markWaiting notes what the stored waiting reply says.
func (a *attempt) markWaiting(last events.Stored) {
	a.waits.possible, a.waits.until = true, last.Reply.Waiting.Deadline
	a.trace.waits(last)
	if last.Reply.Decision != nil {
		a.waits.decision = last.Reply.Decision.Sequence
	}
}

// recordDecision notes the decision of a reply.
func (a *attempt) recordDecision(r *answer) {
	a.decision = r.decision.Sequence
	if r.terms.Several && !r.pool.Shared {
		a.trace.strategy = r.terms.Strategy
	}
}

// enters reports whether the request has to be stored in the waiting room before this reply.
func (a *attempt) enters(r events.Reply) bool {
	return r.Status == events.StatusWaiting && (!a.served || r.Decision.Pool != a.waits.room)
}

// waitsOn reports whether a request that is served from the waiting room goes on waiting for the same pool, so
// that this reply is not published. It returns false if blocks of an attempt that has stopped are to be
// returned: that needs one more reply (rule 12).
func (a *attempt) waitsOn(r events.Reply) bool {
	return r.Status == events.StatusWaiting && !a.enters(r) && !slices.ContainsFunc(a.blocks.left, a.blocks.lasting)
}

// waitsUntil returns the deadline of an event's waiting, by the stream's clock, and stores it in a.waits.until.
// It is the deadline of the first waiting reply. Before there is one, it is the publisher's deadline, or the
// configured timeout from now if the publisher set none; both are bounded by the longest wait. If the timeout
// is 0, the deadline is now.
func (h *Handler) waitsUntil(a *attempt) time.Time {
	if !a.waits.until.IsZero() {
		return a.waits.until
	}
	rules, now := h.rules.Get(), h.clock.Now()
	a.waits.until = now.Add(rules.WaitingTimeout())
	if wanted := a.event.Provision.Deadline; !wanted.IsZero() && rules.WaitingTimeout() != 0 { // 0: no event may wait
		a.waits.until = wanted
	}
	if longest := now.Add(rules.LongestWait()); a.waits.until.After(longest) {
		a.waits.until = longest
	}
	return a.waits.until
}
