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
	// The queue is bounded to an eighth of Options.MaxAckPending, between fewQueued and mostQueued
	// events, and to mostQueuedBytes.
	fewQueued       = 2048
	mostQueued      = 8192
	mostQueuedBytes = 8 << 20
	// roomWait is how long enqueue blocks at most while the queue is full. Then events go back to the stream.
	roomWait = 100 * time.Millisecond
	// slowPlaces is the number of additional handlers for each one of Options.Concurrency. It bounds the
	// events that wait for Gardener and do not count toward Options.Concurrency (leavePlace).
	slowPlaces = 13
	// heldTurns is the number of events without a place that are answered at a time after an open circuit has
	// refused their calls (awaitTurn). When a circuit opens, the calls of thousands of events may fail at once, and
	// these events must not slow down the others.
	heldTurns = 8
	// patience is the number of deliveries after which the redelivery delay grows.
	patience = 4
	// longestShare bounds that growth, as a multiple of the first delay: 6 s while a rebuild is
	// running, 30 s while Gardener is unavailable.
	longestShare = 6
)

// inWork is an event that a handler is handling.
type inWork struct {
	msg   source.Message
	flow  dispatch.Flow
	begun time.Time
	leave sync.Once
	pass  func(*inWork) // see passOn
	left  bool          // it no longer counts toward Concurrency (leavePlace); only its handler's goroutine uses this
	turn  bool          // it has a turn (awaitTurn), which handleAll releases
	turns chan struct{}
}

// flowOf returns the flow in which an event is queued, by the type and tenant in its subject. A redelivered
// event has a class with few turns, since the dependency that it needs may be failing.
func flowOf(subjects events.Subjects, m source.Message) dispatch.Flow {
	kind, of, _ := strings.Cut(strings.TrimPrefix(m.Subject(), subjects.Prefix()+"."), ".")
	class := dispatch.Release
	switch events.Type(kind) {
	case events.TypeProvision:
		class = dispatch.Arrival
	case events.TypeDeprovision:
		class = dispatch.Departure
	case events.TypeRelease, events.TypeResolve:
		of = "" // this part of the subject is a binding or runtime, not a tenant
	}
	if facts, err := m.Metadata(); err == nil && facts.NumDelivered > 1 {
		class = dispatch.Again
	}
	return dispatch.Flow{Class: class, Tenant: of}
}

// share returns how many of a number of handlers one flow may use at a time: half of them, but at least 16, or
// all if there are fewer than 16.
func share(places int) int { return max(places/2, min(places, 16)) }

// enqueue queues an event. If the queue stays full, events go back to the stream, which redelivers them
// after a pause: the newest ones of long flows (dispatch.Queue.Push).
func (w *Worker) enqueue(ctx context.Context, msg source.Message) {
	for _, excess := range w.queue.Push(flowOf(w.subjects, msg), msg, msg.Size(), w.now()) {
		w.handedBack.Add(1)
		number := uint64(1)
		if facts, err := excess.Metadata(); err == nil {
			number = facts.NumDelivered
		}
		if err := excess.NakWithDelay(longer(time.Second, number)); err != nil {
			w.observer.Retry(ctx, observe.Retry{Type: "consume", Err: err})
		}
	}
}

// longer returns the redelivery delay after the delivery of that number: delay for the first patience
// deliveries. Each further delivery doubles it, up to longestShare times delay.
func longer(delay time.Duration, number uint64) time.Duration {
	if number <= patience {
		return delay
	}
	return min(delay<<min(number-patience, 3), longestShare*delay)
}

// handBackQueue closes the queue, and returns its events to the stream for immediate redelivery.
func (w *Worker) handBackQueue() {
	for _, msg := range w.queue.Close() {
		_ = msg.Nak()
	}
}

// beginHandler starts a handler in a place, and frees the place when the handler ends.
func (w *Worker) beginHandler(ctx context.Context, place int) {
	w.handlers.Go(func() {
		w.handleAll(ctx, place)
		w.places[place].Store(nil)
		w.free <- place
	})
}

// handleAll handles events one by one. It returns when the queue is closed, or after an event for which
// leavePlace has started another handler.
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

// leavePlace starts one more handler, since the event of ctx waits for Gardener: queued events go on
// meanwhile, and the event no longer counts toward Options.Concurrency. It does nothing at a second call for
// the event, or if slowPlaces events for each one of the Concurrency handlers wait in this way already.
func leavePlace(ctx context.Context) {
	if in, is := ctx.Value(placeKey{}).(*inWork); is {
		in.leave.Do(func() { in.pass(in) })
	}
}

// awaitTurn blocks the event of ctx, which an open circuit holds up, until fewer than heldTurns such events are being
// answered, or until longest has passed or ctx has ended: then it returns false. An event that still counts toward
// Options.Concurrency does not wait: queued events need its handler.
func awaitTurn(ctx context.Context, longest time.Duration) bool {
	in, is := ctx.Value(placeKey{}).(*inWork)
	if !is || !in.left || in.turn {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	select {
	case in.turns <- struct{}{}:
		in.turn = true
	case <-ctx.Done():
	}
	return in.turn
}

// placeKey is the context key of an event's *inWork.
type placeKey struct{}

// passOn starts another handler in a free place and records that the event no longer counts toward
// Options.Concurrency. If there is no free place, it does nothing.
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

// Load returns the numbers of events that are queued, that do not count toward Options.Concurrency (Slow), and
// that went back to the stream because the queue was full (HandedBack). Its Circuits are the open ones, and a
// closed one for each dependency without an open one.
func (w *Worker) Load() observe.Load {
	load := observe.Load{HandedBack: w.handedBack.Load(), Slow: int(w.slow.Load())}
	for _, class := range dispatch.Classes() {
		var events int
		events, load.Flows = w.queue.Length(class)
		load.Queued = append(load.Queued, observe.Queued{Class: class.String(), Events: events})
	}
	for _, open := range w.parts.Open() {
		load.Circuits = append(load.Circuits, observe.Circuit{Dependency: string(open.Part.Dependency), Pool: open.Part.Pool, Open: true, Err: open.Last, Since: open.Since})
	}
	for _, d := range bulkhead.Dependencies() {
		if !slices.ContainsFunc(load.Circuits, func(c observe.Circuit) bool { return c.Dependency == string(d) }) {
			load.Circuits = append(load.Circuits, observe.Circuit{Dependency: string(d)})
		}
	}
	return load
}
