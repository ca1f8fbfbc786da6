// Package dispatch decides which of the events that a worker has taken is handled next.
//
// Events of one tenant and class form a flow. The classes take turns by their weights,
// and the flows of a class one event at a time, so that an event waits for the events of
// other flows only as long as its own flow is due, however many those are. What is held is
// bounded: beyond the bounds the longest flow loses its newest event to the caller, who
// returns it to the stream.
package dispatch

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Class is a kind of events that has its own weight.
type Class int

// The classes. Every class is served, however many events the others have.
const (
	Release   Class = iota // an account is freed, or a policy is asked for
	Departure              // a runtime ends
	Arrival                // a runtime begins
	Again                  // of any type, delivered before: what it needs may have failed
	classes
)

// weights are the turns of the classes in each round.
var weights = [classes]int{Release: 4, Departure: 4, Arrival: 3, Again: 1}

// Classes lists all classes.
func Classes() []Class { return []Class{Release, Departure, Arrival, Again} }

// String names a class as metrics do.
func (c Class) String() string {
	return [classes]string{"release", "departure", "arrival", "again"}[c]
}

// Flow names the events that wait for one another.
type Flow struct {
	Class  Class
	Tenant string
}

// Options bound what a queue holds.
type Options struct {
	Events int // that are held at most
	Bytes  int // that they have together at most
	// Share is how many events of one flow are handled at once at most.
	Share int
	// Wait is how long Push waits for room while events leave. Without it, the events of a
	// flood that the handlers keep up with would go back to the stream.
	Wait time.Duration
}

// Queue holds events until their turn comes. Any number of goroutines may use it.
type Queue[T any] struct {
	options Options

	mu      sync.Mutex
	due     sync.Cond
	closed  bool
	flows   map[Flow]*flow[T] // with events that are held, or handled
	turns   [classes][]*flow[T]
	credit  [classes]int
	held    [classes]int
	events  int
	bytes   int
	waiting int // flows with events that are held
	arrived uint64
	longest *flow[T]      // one that was the longest once
	room    chan struct{} // signalled when an event leaves
	stuck   bool          // none has left since a Push waited in vain
}

type flow[T any] struct {
	Flow
	items   []item[T]
	handled int
	inTurn  bool
}

type item[T any] struct {
	value  T
	size   int
	at     time.Time
	number uint64
}

// New returns an empty queue.
func New[T any](o Options) *Queue[T] {
	q := &Queue[T]{options: o, flows: map[Flow]*flow[T]{}, room: make(chan struct{}, 1)}
	q.due.L = &q.mu
	return q
}

// Push adds an event of so many bytes that was taken at a time. Where that is more than
// the bounds allow after Options.Wait, it returns the newest event of the longest flow, which
// is not held any more. After Close it returns the event itself.
func (q *Queue[T]) Push(of Flow, value T, size int, at time.Time) (excess T, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaitRoom(size)
	if q.closed {
		return value, true
	}
	f := q.flows[of]
	if f == nil {
		f = &flow[T]{Flow: of}
		q.flows[of] = f
	}
	if len(f.items) == 0 {
		q.waiting++
	}
	q.arrived++
	f.items = append(f.items, item[T]{value, size, at, q.arrived})
	q.events, q.bytes = q.events+1, q.bytes+size
	q.held[of.Class]++
	q.queueUp(f)
	if q.fits(0, 0) {
		return excess, false
	}
	longest := q.findLongest(f)
	last := longest.items[len(longest.items)-1]
	longest.items = longest.items[:len(longest.items)-1]
	q.left(longest, last.size)
	return last.value, true
}

// fits reports whether the bounds allow so many more events, with so many bytes.
func (q *Queue[T]) fits(events, bytes int) bool {
	events, bytes = q.events+events, q.bytes+bytes
	return events <= q.options.Events && (bytes <= q.options.Bytes || events == 1)
}

// awaitRoom waits until an event of that size fits, or for Options.Wait. It does not wait where
// nothing has left since it last waited in vain: events of other flows must not be held up by
// handlers that are stuck.
func (q *Queue[T]) awaitRoom(size int) {
	if q.options.Wait == 0 || q.stuck || q.fits(1, size) {
		return
	}
	over := time.NewTimer(q.options.Wait)
	defer over.Stop()
	for !q.closed && !q.stuck && !q.fits(1, size) {
		q.mu.Unlock()
		select {
		case <-q.room:
			q.mu.Lock()
		case <-over.C:
			q.mu.Lock()
			q.stuck = !q.fits(1, size)
			return
		}
	}
}

// findLongest returns a flow that is at least as long as the average of all: the one that
// was pushed to, or one that was seen to be the longest.
func (q *Queue[T]) findLongest(pushed *flow[T]) *flow[T] {
	long := func(f *flow[T]) bool { return f != nil && len(f.items)*q.waiting >= q.events }
	switch {
	case long(pushed):
		return pushed
	case long(q.longest):
		return q.longest
	}
	q.longest = pushed
	for _, f := range q.flows {
		if c := cmp.Compare(len(f.items), len(q.longest.items)); c > 0 || c == 0 && f.number() < q.longest.number() {
			q.longest = f
		}
	}
	return q.longest
}

// number is that of the flow's first event, which no other flow has.
func (f *flow[T]) number() uint64 {
	if len(f.items) == 0 {
		return 0
	}
	return f.items[0].number
}

// queueUp puts a flow in its turn where it has an event that may be handled.
func (q *Queue[T]) queueUp(f *flow[T]) {
	if f.inTurn || len(f.items) == 0 || f.handled >= q.options.Share {
		return
	}
	f.inTurn = true
	q.turns[f.Class] = append(q.turns[f.Class], f)
	q.due.Signal()
}

// left counts an event that is not held any more.
func (q *Queue[T]) left(f *flow[T], size int) {
	q.events, q.bytes = q.events-1, q.bytes-size
	q.held[f.Class]--
	if len(f.items) > 0 {
		return
	}
	f.items = nil
	q.waiting--
	if f.inTurn {
		f.inTurn = false
		q.turns[f.Class] = slices.DeleteFunc(q.turns[f.Class], func(other *flow[T]) bool { return other == f })
	}
	q.forget(f)
}

// signalRoom lets a Push go on that waits.
func (q *Queue[T]) signalRoom() {
	q.stuck = false
	select {
	case q.room <- struct{}{}:
	default:
	}
}

// forget drops a flow that has no events.
func (q *Queue[T]) forget(f *flow[T]) {
	if len(f.items) > 0 || f.handled > 0 {
		return
	}
	delete(q.flows, f.Flow)
	if q.longest == f {
		q.longest = nil
	}
}

// Pop waits for the event whose turn it is; false after Close. Done has to be called with
// its flow.
func (q *Queue[T]) Pop() (value T, of Flow, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if q.closed {
			return value, of, false
		}
		if class, due := q.next(); due {
			value, of = q.take(class)
			return value, of, true
		}
		q.due.Wait()
	}
}

// next is the class whose turn it is: each gains its weight, and the one that has most pays
// for all.
func (q *Queue[T]) next() (next Class, due bool) {
	total := 0
	for class := range classes {
		if len(q.turns[class]) == 0 {
			continue
		}
		q.credit[class] += weights[class]
		total += weights[class]
		if !due || q.credit[class] > q.credit[next] {
			next, due = class, true
		}
	}
	q.credit[next] -= total
	return next, due
}

func (q *Queue[T]) take(class Class) (value T, of Flow) {
	f := q.turns[class][0]
	q.turns[class][0] = nil
	q.turns[class] = q.turns[class][1:]
	if len(q.turns[class]) == 0 {
		q.credit[class] = 0 // what was not used is not kept
	}
	first := f.items[0]
	f.items[0] = item[T]{}
	f.items = f.items[1:]
	f.inTurn = false
	f.handled++
	q.left(f, first.size)
	q.signalRoom()
	q.queueUp(f)
	return first.value, f.Flow
}

// Done says that an event is not handled any more, or takes no place while it is.
func (q *Queue[T]) Done(of Flow) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.flows[of]
	if f == nil {
		return
	}
	f.handled--
	q.queueUp(f)
	q.forget(f)
}

// Close ends every Pop, and returns the events that are held, in the order in which they
// were pushed.
func (q *Queue[T]) Close() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.due.Broadcast()
	q.signalRoom()
	rest := q.before(time.Time{})
	q.flows, q.turns, q.held = map[Flow]*flow[T]{}, [classes][]*flow[T]{}, [classes]int{}
	q.events, q.bytes, q.waiting, q.longest = 0, 0, 0, nil
	return rest
}

// Before returns the held events that were taken before a time.
func (q *Queue[T]) Before(at time.Time) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.before(at)
}

func (q *Queue[T]) before(at time.Time) []T {
	var found []item[T]
	for _, f := range q.flows {
		for _, i := range f.items {
			if at.IsZero() || i.at.Before(at) {
				found = append(found, i)
			}
		}
	}
	slices.SortFunc(found, func(a, b item[T]) int { return cmp.Compare(a.number, b.number) })
	values := make([]T, len(found))
	for i := range found {
		values[i] = found[i].value
	}
	return values
}

// Length is how many events of a class are held, and of how many flows all classes have some.
func (q *Queue[T]) Length(of Class) (events, flows int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held[of], q.waiting
}

// Empty reports whether no event is held.
func (q *Queue[T]) Empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.events == 0
}
