package worker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/bulkhead"
	"github.com/hap-worker/hap-worker/worker/dispatch"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/source"
)

const (
	// fewQueued, mostQueued and mostQueuedBytes bound the events that a worker has taken and not
	// begun: Options.MaxAckPending says where between the first two.
	fewQueued       = 2048
	mostQueued      = 8192
	mostQueuedBytes = 8 << 20
	// roomWait is how long taking stands still for room in the queue.
	roomWait = 100 * time.Millisecond
	// slowPlaces is how many events may wait for Gardener without a place, for each place.
	slowPlaces = 20
	// heldTurns is how many events are answered at a time that Gardener is not asked about, since
	// it fails. When a circuit opens there may be thousands, and what others need goes first.
	heldTurns = 8
	// patience is how many deliveries are followed by the usual pause, before it grows.
	patience = 4
	// longestShare is how many times the usual pause an event waits at most before it is
	// delivered again: 6 s for a rebuild that is on its way, 30 s for what cannot be reached.
	longestShare = 6
)

// inWork is an event in the hands of a handler.
type inWork struct {
	msg   source.Message
	flow  dispatch.Flow
	begun time.Time
	leave sync.Once
	pass  func(*inWork) // see passOn
	left  bool          // it takes no place any more; of the goroutine that handles it
	turn  bool          // it has one of turns until it is handled
	turns chan struct{}
}

// flowOf returns the flow that an event waits in: those of its tenant, as far as its subject says. One
// that was delivered before may need what fails, and leaves the places to others.
func flowOf(subjects events.Subjects, m source.Message) dispatch.Flow {
	kind, of, _ := strings.Cut(strings.TrimPrefix(m.Subject(), subjects.Prefix()+"."), ".")
	class := dispatch.Release
	switch events.Type(kind) {
	case events.TypeProvision:
		class = dispatch.Arrival
	case events.TypeDeprovision:
		class = dispatch.Departure
	case events.TypeRelease, events.TypeResolve:
		of = "" // of bindings and runtimes, not of tenants
	}
	if facts, err := m.Metadata(); err == nil && facts.NumDelivered > 1 {
		class = dispatch.Again
	}
	return dispatch.Flow{Class: class, Tenant: of}
}

// share is how many places the events of one flow have at most.
func share(places int) int { return max(places/2, min(places, 16)) }

// enqueue queues an event. Where too many are queued, the newest of the longest flow goes
// back to the stream.
func (w *Worker) enqueue(ctx context.Context, msg source.Message) {
	excess, full := w.queue.Push(flowOf(w.subjects, msg), msg, len(msg.Data()), w.now())
	if !full {
		return
	}
	w.handedBack.Add(1)
	number := uint64(1)
	if facts, err := excess.Metadata(); err == nil {
		number = facts.NumDelivered
	}
	if err := excess.NakWithDelay(longer(time.Second, number)); err != nil {
		w.observer.Retry(ctx, observe.Retry{Type: "consume", Err: err})
	}
}

// longer is the pause after a delivery of that number: the more often an event came, the
// longer others go first.
func longer(delay time.Duration, number uint64) time.Duration {
	if number <= patience {
		return delay
	}
	return min(delay<<min(number-patience, 3), longestShare*delay)
}

// handBackQueue ends the queue. What is not begun another worker can have at once.
func (w *Worker) handBackQueue() {
	for _, msg := range w.queue.Close() {
		_ = msg.Nak()
	}
}

// beginHandler starts a handler in a place, which is free again when it ends.
func (w *Worker) beginHandler(ctx context.Context, place int) {
	w.handlers.Go(func() {
		w.handleAll(ctx, place)
		w.places[place].Store(nil)
		w.free <- place
	})
}

// handleAll handles one event after the other, until the queue is closed or an event has left
// its place to another handler.
func (w *Worker) handleAll(ctx context.Context, place int) {
	pass := func(in *inWork) { w.passOn(ctx, in) }
	for {
		msg, flow, ok := w.queue.Pop()
		if !ok {
			return
		}
		in := &inWork{msg: msg, flow: flow, begun: w.now(), pass: pass, turns: w.turns}
		w.places[place].Store(in)
		w.Handle(context.WithValue(ctx, placeKey{}, in), msg)
		if in.turn {
			<-in.turns
		}
		if in.left {
			w.slow.Add(-1)
			return
		}
		w.queue.Done(flow)
		w.places[place].Store(nil)
	}
}

// leavePlace has another handler begin in a place without one, so that the event of ctx, which
// waits for Gardener, holds up none that are queued. Where all places are taken the event
// keeps its own.
func leavePlace(ctx context.Context) {
	if in, is := ctx.Value(placeKey{}).(*inWork); is {
		in.leave.Do(func() { in.pass(in) })
	}
}

// awaitTurn makes the event of ctx, which Gardener holds up, wait for its turn. One that still
// has its place does not wait: others wait for that place.
func awaitTurn(ctx context.Context) {
	in, is := ctx.Value(placeKey{}).(*inWork)
	if !is || !in.left || in.turn {
		return
	}
	select {
	case in.turns <- struct{}{}:
		in.turn = true
	case <-ctx.Done():
	}
}

// placeKey is of the context value with the *inWork of an event.
type placeKey struct{}

// passOn starts another handler for the place of an event.
func (w *Worker) passOn(ctx context.Context, in *inWork) {
	select {
	case place := <-w.free:
		in.left = true
		w.slow.Add(1)
		w.queue.Done(in.flow)
		w.beginHandler(ctx, place)
	default:
	}
}

// Load returns what the worker has in hand.
func (w *Worker) Load() observe.Load {
	load := observe.Load{HandedBack: w.handedBack.Load(), Slow: int(w.slow.Load())}
	for _, class := range dispatch.Classes() {
		var events int
		events, load.Flows = w.queue.Length(class)
		load.Queued = append(load.Queued, observe.Queued{Class: class.String(), Events: events})
	}
	for _, open := range w.parts.Open() {
		load.Circuits = append(load.Circuits, observe.Circuit{Dependency: string(open.Part.Dependency), Pool: open.Part.Pool, Open: true, Err: open.Last})
	}
	for _, d := range bulkhead.Dependencies() {
		if !slices.ContainsFunc(load.Circuits, func(c observe.Circuit) bool { return c.Dependency == string(d) }) {
			load.Circuits = append(load.Circuits, observe.Circuit{Dependency: string(d)})
		}
	}
	return load
}
