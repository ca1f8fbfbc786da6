// Package dispatch decides which queued event a worker handles next.
//
// Events of one tenant and class form a flow. The classes take turns by weight. Within a class, the flows
// take turns, one event at a time (round robin). So the delay of an event depends on the number of flows
// and on the length of its flow, but not on the length of the others. The queue is bounded: if it stays
// full, flows of at least average length lose their newest events, which the caller returns to the stream.
package dispatch

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Class is a kind of events with a weight.
type Class int

// The classes. Each class gets turns, however many events the others have.
const (
	Release   Class = iota // release and resolve
	Departure              // deprovision
	Arrival                // provision
	Again                  // any redelivered event: the dependency that it needs may be failing
	classes
)

// weights are the turns of each class in a round.
var weights = [classes]int{Release: 4, Departure: 4, Arrival: 3, Again: 1}

// Classes lists all classes.
func Classes() []Class { return []Class{Release, Departure, Arrival, Again} }

// String returns the name of the class in metrics.
func (c Class) String() string {
	return [classes]string{"release", "departure", "arrival", "again"}[c]
}

// Flow identifies the events of one tenant and class.
type Flow struct {
	Class  Class
	Tenant string
}

// Options bound a queue.
type Options struct {
	Events int // maximum number of queued events
	Bytes  int // maximum size of all queued events
	// Share is the maximum number of events of one flow that are handled at once.
	Share int
	// Wait is how long Push blocks at most while the queue is full; 0 means not at all. Without this wait, a
	// burst that the handlers can process soon would go back to the stream.
	Wait time.Duration
}

// Queue stores events until their turn comes. It is safe for concurrent use.
type Queue[T any] struct {
	options Options

	mu      sync.Mutex
	due     sync.Cond
	closed  bool
	flows   map[Flow]*flow[T]   // with queued events, or events being handled
	turns   [classes][]*flow[T] // flows whose next event may be handled, in order
	credit  [classes]int
	held    [classes]int // queued events of each class
	events  int          // queued events of all classes
	bytes   int
	waiting int // flows with queued events
	arrived uint64
	longest *flow[T]      // the longest flow when findLongest last compared all flows
	room    chan struct{} // signalled when an event leaves
	stuck   bool          // no event has left since a Push waited for room without success
}

type flow[T any] struct {
	Flow
	items   []item[T]
	bytes   int // of items
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

// Push adds an event of size bytes that was received at a time. It blocks up to Options.Wait while the
// queue is full. If the queue is still full, Push removes the newest event of a flow of at least average
// length, in the unit of the bound that is exceeded, until the queue is within its bounds, and returns these
// events. After Close it returns value itself.
func (q *Queue[T]) Push(of Flow, value T, size int, at time.Time) (excess []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaitRoom(size)
	if q.closed {
		return []T{value}
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
	q.events, q.bytes, f.bytes = q.events+1, q.bytes+size, f.bytes+size
	q.held[of.Class]++
	q.queueUp(f)
	for !q.fits(0, 0) {
		longest := q.findLongest(f)
		end := len(longest.items) - 1
		last := longest.items[end]
		longest.items[end] = item[T]{}
		longest.items = longest.items[:end]
		q.left(longest, last.size)
		excess = append(excess, last.value)
	}
	return excess
}

// fits reports whether so many more events, with so many bytes, stay within the bounds. A single event of
// any size fits into an empty queue.
func (q *Queue[T]) fits(events, bytes int) bool {
	events, bytes = q.events+events, q.bytes+bytes
	return events <= q.options.Events && (bytes <= q.options.Bytes || events == 1)
}

// awaitRoom waits until an event of that size fits, but at most Options.Wait. After one wait without
// success it does not wait again until an event has left, since stuck handlers must not delay every Push.
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

// findLongest returns a flow of at least average length: pushed, or q.longest, or else the longest of all. So
// it rarely has to compare all flows.
func (q *Queue[T]) findLongest(pushed *flow[T]) *flow[T] {
	length, all := func(f *flow[T]) int { return f.bytes }, q.bytes
	if q.events > q.options.Events {
		length, all = func(f *flow[T]) int { return len(f.items) }, q.events
	}
	long := func(f *flow[T]) bool { return f != nil && len(f.items) > 0 && length(f)*q.waiting >= all }
	switch {
	case long(pushed):
		return pushed
	case long(q.longest):
		return q.longest
	}
	q.longest = pushed
	for _, f := range q.flows {
		if c := cmp.Compare(length(f), length(q.longest)); c > 0 || c == 0 && f.number() < q.longest.number() {
			q.longest = f
		}
	}
	return q.longest
}

// number returns the arrival number of the flow's first queued event, which is unique; 0 if none is queued.
func (f *flow[T]) number() uint64 {
	if len(f.items) == 0 {
		return 0
	}
	return f.items[0].number
}

// queueUp appends the flow to the turns of its class if it has an event that may be handled.
func (q *Queue[T]) queueUp(f *flow[T]) {
	if f.inTurn || len(f.items) == 0 || f.handled >= q.options.Share {
		return
	}
	f.inTurn = true
	q.turns[f.Class] = append(q.turns[f.Class], f)
	q.due.Signal()
}

// left updates the counts after an event has left the queue.
func (q *Queue[T]) left(f *flow[T], size int) {
	q.events, q.bytes, f.bytes = q.events-1, q.bytes-size, f.bytes-size
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

// signalRoom wakes a Push that waits for room.
func (q *Queue[T]) signalRoom() {
	q.stuck = false
	select {
	case q.room <- struct{}{}:
	default:
	}
}

// forget drops the flow if none of its events is queued or being handled.
func (q *Queue[T]) forget(f *flow[T]) {
	if len(f.items) > 0 || f.handled > 0 {
		return
	}
	delete(q.flows, f.Flow)
	if q.longest == f {
		q.longest = nil
	}
}

// Pop blocks until there is an event, and returns the one whose turn it is. It returns false after Close.
// The caller must call Done with the flow.
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

// next returns the class whose turn it is, by smooth weighted round robin: the credit of each class with an
// event that may be handled grows by the weight of the class. The class with the highest credit is next, and its
// credit shrinks by the sum of these weights. due is false if no class has such an event.
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
		q.credit[class] = 0 // an empty class keeps no credit
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

// Done tells the queue that an event of the flow is handled, or no longer counts toward Options.Share.
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

// Close ends every Pop, and returns the queued events in the order in which they were pushed.
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

// Before returns the queued events that were received before a time.
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

// Length returns the number of queued events of a class, and the number of flows with queued events in all
// classes.
func (q *Queue[T]) Length(of Class) (events, flows int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held[of], q.waiting
}

// Empty reports whether no event is queued.
func (q *Queue[T]) Empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.events == 0
}
