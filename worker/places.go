package worker

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/dispatch"
	"github.com/hap-worker/hap-worker/worker/observe"
)

const (
	// mostQueued and mostQueuedBytes bound the events that a worker has taken and not begun.
	mostQueued      = 2048
	mostQueuedBytes = 8 << 20
	// slowPlaces is how many events may be slow at a time, for each place: the one that is
	// slow for longest then ends its budget.
	slowPlaces = 3
	// patience is how many deliveries are followed by the usual pause, before it grows.
	patience = 4
	// longestDelay bounds the pause before an event is delivered again.
	longestDelay = 30 * time.Second
)

// inWork is an event in the hands of a handler.
type inWork struct {
	msg   held
	flow  dispatch.Flow
	begun time.Time
	slow  atomic.Bool
	end   atomic.Pointer[context.CancelFunc] // of its budget
}

// flowOf is what an event waits with: those of its tenant, as far as its subject says. One
// that was delivered before may need what fails, and leaves the places to others.
func flowOf(subjects events.Subjects, m held) dispatch.Flow {
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
func (w *Worker) enqueue(ctx context.Context, msg held) {
	excess, full := w.queue.Push(flowOf(w.subjects, msg), msg, len(msg.Data()), w.now())
	select {
	case w.queued <- struct{}{}:
	default:
	}
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
	return max(delay, min(delay<<min(number-patience, 5), longestDelay))
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

// handleAll handles one event after the other, until the queue is closed or another handler
// has taken its part because an event was slow.
func (w *Worker) handleAll(ctx context.Context, place int) {
	for {
		msg, flow, ok := w.queue.Pop()
		if !ok {
			return
		}
		in := &inWork{msg: msg, flow: flow, begun: w.now()}
		w.places[place].Store(in)
		w.handleIn(ctx, msg, in)
		if in.slow.Swap(true) {
			return
		}
		w.queue.Done(flow)
		w.places[place].Store(nil)
	}
}

// relieve gives the place of each slow event to another handler while events are queued,
// until taking ends. Where too many are slow, the budgets of the oldest are over. It looks
// only while there is something in the queue.
func (w *Worker) relieve(ctx, taking context.Context) {
	for {
		select {
		case <-taking.Done():
			return
		case <-w.queued:
		}
		for wait(taking, w.opts.SlowAfter/2) && !w.queue.Empty() {
			w.relieveOnce(ctx, w.now().Add(-w.opts.SlowAfter))
		}
	}
}

// wait lets the time pass; false is a ctx that has ended.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (w *Worker) relieveOnce(ctx context.Context, limit time.Time) {
	var slow []*inWork
	lacking := 0
	for i := range w.places {
		in := w.places[i].Load()
		switch {
		case in == nil || in.begun.After(limit):
		case in.slow.Load():
			slow = append(slow, in)
		case !w.passOn(ctx, in):
			lacking++
		}
	}
	slices.SortStableFunc(slow, func(a, b *inWork) int { return a.begun.Compare(b.begun) })
	for _, in := range slow[:min(lacking, len(slow))] {
		if end := in.end.Load(); end != nil {
			(*end)()
		}
	}
}

// passOn starts another handler for the place of a slow event, and reports whether there
// was room for it.
func (w *Worker) passOn(ctx context.Context, in *inWork) bool {
	select {
	case place := <-w.free:
		if !in.slow.CompareAndSwap(false, true) {
			w.free <- place // it has just ended
			return true
		}
		w.queue.Done(in.flow)
		w.beginHandler(ctx, place)
		return true
	default:
		return false
	}
}

// Load is what the worker has in hand.
func (w *Worker) Load() observe.Load {
	load := observe.Load{HandedBack: w.handedBack.Load()}
	for _, class := range dispatch.Classes() {
		var events int
		events, load.Flows = w.queue.Length(class)
		load.Queued = append(load.Queued, observe.Queued{Class: class.String(), Events: events})
	}
	for i := range w.places {
		if in := w.places[i].Load(); in != nil && in.slow.Load() {
			load.Slow++
		}
	}
	return load
}
